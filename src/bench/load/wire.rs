//! The cheapest possible client: a connection, a request at a time, bytes made beforehand.
//!
//! The client shares the computer with the measured process, so it does as little as possible. It
//! reads just as much of HTTP as the answers of a known server have: a status, and a length or
//! none.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that is kept.
#[derive(Debug)]
pub(in crate::bench) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::bench) struct HttpAnswer {
    pub status: u16,
    pub etag: Option<String>,
    pub body: Vec<u8>,
}

impl Connection {
    /// A connection to `address`.
    pub async fn open(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(64 << 10) })
    }

    /// Sends a request, and reads the answer to its end.
    pub async fn ask(&mut self, request: &[u8]) -> io::Result<HttpAnswer> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if let Some(answer) = read(&self.buffer)? {
                return Ok(answer);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The answer in `bytes`, once all of it is there.
fn read(bytes: &[u8]) -> io::Result<Option<HttpAnswer>> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(end) = bytes.windows(END.len()).position(|part| part == END) else { return Ok(None) };
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "not an answer in HTTP/1.1");
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| strange())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(strange)?;
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let header = |name: &str| {
        let found = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value)
    };
    if header("transfer-encoding").is_some() {
        return Err(strange());
    }
    let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let length = if status == 304 { 0 } else { length };
    let start = end + END.len();
    let body = bytes.get(start..start + length);
    let etag = header("etag").map(str::to_owned);
    Ok(body.map(|body| HttpAnswer { status, etag, body: body.to_vec() }))
}

/// A request without a body, with these header lines besides.
pub(in crate::bench) fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\n{headers}\r\n").into_bytes()
}

/// A request with a body in JSON.
pub(in crate::bench) fn send(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_once_it_is_all_there() {
        let bytes = b"HTTP/1.1 200 OK\r\nETag: W/\"7\"\r\nContent-Length: 3\r\n\r\nabc";
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]).unwrap(), None);
        }
        let answer = read(bytes).unwrap().unwrap();
        let etag = Some("W/\"7\"".to_owned());
        assert_eq!(answer, HttpAnswer { status: 200, etag, body: b"abc".to_vec() });
        let unchanged = b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n";
        assert_eq!(read(unchanged).unwrap().unwrap().status, 304);
        assert!(read(b"SSH-2.0-x\r\n\r\n").is_err());
    }
}
