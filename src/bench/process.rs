//! Processor time and memory of a process, as Linux reports them under `/proc`. Other systems
//! report nothing.

use std::fs;
use std::path::PathBuf;

/// Entry of the auxiliary vector with the number of clock ticks in a second.
const AT_CLKTCK: usize = 17;

/// A process on this computer.
#[derive(Clone, Debug)]
pub(super) struct MeasuredProcess {
    folder: PathBuf,
}

impl MeasuredProcess {
    /// The calling process.
    pub fn own() -> MeasuredProcess {
        MeasuredProcess { folder: PathBuf::from("/proc/self") }
    }

    /// The process with this number.
    pub fn of(id: u32) -> MeasuredProcess {
        MeasuredProcess { folder: PathBuf::from(format!("/proc/{id}")) }
    }

    /// The thread called `name`, as if it were a process; `None` if the process has no such thread,
    /// or threads cannot be listed.
    pub fn thread(&self, name: &str) -> Option<MeasuredProcess> {
        let threads = fs::read_dir(self.folder.join("task")).ok()?;
        let mut threads =
            threads.filter_map(|entry| Some(MeasuredProcess { folder: entry.ok()?.path() }));
        threads.find(|thread| thread.read("comm").is_some_and(|comm| comm.trim_end() == name))
    }

    /// Peak memory in MB; `None` if the system does not report it.
    pub fn peak_rss_mb(&self) -> Option<f64> {
        let kibibytes = number_after(&self.read("status")?, "VmHWM:")?;
        Some(f64::from(u32::try_from(kibibytes).ok()?) / 1024.0)
    }

    /// Processor time in seconds, all threads together; `None` if the system does not report it.
    pub fn cpu_s(&self) -> Option<f64> {
        let ticks = u32::try_from(ticks(&self.read("stat")?)?).ok()?;
        Some(f64::from(ticks) / f64::from(ticks_per_second()?))
    }

    /// Bytes written to disks; `None` if the system does not report them.
    pub fn written_bytes(&self) -> Option<u64> {
        number_after(&self.read("io")?, "write_bytes:")
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(file)).ok()
    }
}

/// The number in the line that begins with `key`.
fn number_after(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// User and system time of a line of `stat`. The second field is the program's name in brackets,
/// and may have anything in it, brackets and blanks included.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

/// Reads the ticks from the auxiliary vector that the kernel gave this process at its start.
fn ticks_per_second() -> Option<u32> {
    let vector = fs::read("/proc/self/auxv").ok()?;
    let mut words = vector
        .chunks_exact(size_of::<usize>())
        .filter_map(|word| Some(usize::from_ne_bytes(word.try_into().ok()?)));
    while let (Some(kind), Some(value)) = (words.next(), words.next()) {
        if kind == AT_CLKTCK {
            return u32::try_from(value).ok().filter(|ticks| 0 < *ticks);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let status = "Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(number_after(status, "VmHWM:"), Some(2048));
        assert_eq!(number_after(status, "VmSwap:"), None);
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("42 (a) S 1 2"), None);
    }

    #[test]
    fn a_process_that_is_not_there_has_used_nothing_that_is_known() {
        let absent = MeasuredProcess { folder: PathBuf::from("/proc/none") };
        assert_eq!(absent.peak_rss_mb(), None);
        assert_eq!(absent.cpu_s(), None);
        assert_eq!(absent.written_bytes(), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_used_something() {
        let own = MeasuredProcess::own();
        assert!(own.peak_rss_mb().is_some_and(|memory| memory > 0.5));
        assert!(own.cpu_s().is_some());
        let named = std::thread::Builder::new().name("a thread".to_owned());
        let (tell, told) = std::sync::mpsc::channel();
        let (began, has_begun) = std::sync::mpsc::channel();
        let work = move || {
            began.send(()).unwrap();
            told.recv()
        };
        let thread = named.spawn(work).unwrap();
        has_begun.recv().unwrap();
        assert!(own.thread("a thread").is_some_and(|thread| thread.cpu_s().is_some()));
        assert!(own.thread("no thread").is_none());
        tell.send(()).unwrap();
        thread.join().unwrap().unwrap();
    }
}
