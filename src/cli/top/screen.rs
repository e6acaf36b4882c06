//! The terminal: taken over whole, and restored in any case.

use std::io::{self, Write};
use std::panic;
use std::sync::Once;
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event};
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use tokio::sync::mpsc;

use super::frame::{Ink, PaintedLine};

/// The terminal while it is ours. Dropping it gives it back.
pub(super) struct Screen {
    shown: Vec<PaintedLine>,
    has_colour: bool,
}

impl Screen {
    /// Takes the terminal over.
    pub fn open() -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |what| {
                give_back();
                before(what);
            }));
        });
        enable_raw_mode()?;
        let screen = Screen {
            shown: Vec::new(),
            has_colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Returns width and height.
    pub fn size() -> io::Result<(usize, usize)> {
        let (width, height) = crossterm::terminal::size()?;
        Ok((usize::from(width), usize::from(height)))
    }

    /// Drops the record of the shown lines, as the terminal may show anything.
    pub fn forget(&mut self) {
        self.shown.clear();
        // If that fails, so does showing what comes next.
        let _ = queue!(io::stdout(), Clear(ClearType::All));
    }

    /// Shows `lines` from the top. Writes changed lines only.
    pub fn show(&mut self, lines: &[PaintedLine]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (at, line) in lines.iter().enumerate() {
            if self.shown.get(at) == Some(line) {
                continue;
            }
            // Cleared before and not after: behind a full line some terminals stand on its last cell.
            queue!(out, MoveTo(0, u16::try_from(at).unwrap_or(u16::MAX)))?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
            for (paint, text) in line {
                self.paint(&mut out, *paint, text)?;
            }
        }
        if lines.len() < self.shown.len() {
            queue!(out, Clear(ClearType::FromCursorDown))?;
        }
        out.flush()?;
        self.shown = lines.to_vec();
        Ok(())
    }

    fn paint(&self, out: &mut impl Write, paint: Ink, text: &str) -> io::Result<()> {
        let colour = match paint {
            Ink::Plain | Ink::Strong | Ink::Inverse | Ink::Faint => None,
            Ink::Good => Some(Color::Cyan),
            Ink::Bad => Some(Color::Red),
            Ink::Notable => Some(Color::Yellow),
        };
        match paint {
            Ink::Strong => queue!(out, SetAttribute(Attribute::Bold))?,
            Ink::Inverse => queue!(out, SetAttribute(Attribute::Reverse))?,
            Ink::Faint => queue!(out, SetAttribute(Attribute::Dim))?,
            Ink::Plain | Ink::Good | Ink::Bad | Ink::Notable => {}
        }
        if let Some(colour) = colour.filter(|_| self.has_colour) {
            queue!(out, SetForegroundColor(colour))?;
        }
        queue!(out, Print(text), SetAttribute(Attribute::Reset))?;
        if self.has_colour { queue!(out, ResetColor) } else { Ok(()) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. An error is ignored: it could not be shown.
fn give_back() {
    let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// Returns typed keys and changes of the terminal's size. The thread ends with the process.
pub(super) fn keys() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        loop {
            match event::poll(Duration::from_millis(200)) {
                Ok(true) => {}
                Ok(false) if sender.is_closed() => return,
                Ok(false) => continue,
                Err(_) => return,
            }
            let Ok(event) = event::read() else { return };
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
