//! Writes to stdout and stderr, and keeps a live area at the bottom of a terminal that can move its
//! cursor.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::live_area::LiveArea;
use crate::style::{is_dumb, size_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

pub(crate) struct Screen {
    pub(crate) stdout_is_terminal: bool,
    pub(crate) stderr_is_terminal: bool,
    /// The stream on which the live area is drawn, if there is one.
    live: Option<Stream>,
    area: LiveArea,
    /// The drawn rows and the width of the screen. While both are the same, nothing is redrawn.
    last: (Vec<String>, usize),
    /// Set after something else has written to the terminal, so what is drawn is not where it was.
    pub(crate) resumed: Arc<AtomicBool>,
}

impl Screen {
    pub(crate) fn stdio() -> Self {
        let (stdout, stderr) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        // If stdout goes to a pager, the pager controls the terminal.
        let live = match (stdout && !is_dumb(), stderr) {
            (false, _) => None,
            (true, true) => Some(Stream::Stderr),
            (true, false) => Some(Stream::Stdout),
        };
        Self {
            stdout_is_terminal: stdout,
            stderr_is_terminal: stderr,
            live,
            area: LiveArea::default(),
            last: (Vec::new(), 0),
            resumed: Arc::default(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Returns the columns and rows of the terminal.
    pub(crate) fn size(&self) -> (usize, usize) {
        let size = match self.live {
            Some(Stream::Stderr) => size_of(io::stderr()),
            Some(Stream::Stdout) => size_of(io::stdout()),
            None => size_of(io::stdout()).or_else(|| size_of(io::stderr())),
        };
        size.unwrap_or((80, 24))
    }

    /// Writes text, above the live area if the text goes to the terminal. If there is a live area,
    /// the text must be whole lines.
    pub(crate) fn write(&mut self, to: Stream, text: &str, rows: Vec<String>) -> io::Result<()> {
        let Some(live) = self.live.filter(|_| self.is_terminal(to)) else { return write_to(to, text) };
        self.forget_if_resumed();
        let (columns, _) = self.size();
        let erased = self.area.erase(columns);
        let drawn = self.area.draw(&rows, columns);
        self.last = (rows, columns);
        if to == live {
            return write_to(live, &format!("{erased}{text}{drawn}"));
        }
        write_to(live, &erased)?;
        write_to(to, text)?;
        write_to(live, &drawn)
    }

    /// Redraws the live area if it has changed.
    pub(crate) fn redraw(&mut self, rows: Vec<String>) -> io::Result<()> {
        let Some(live) = self.live else { return Ok(()) };
        self.forget_if_resumed();
        let (columns, _) = self.size();
        if self.last.1 == columns && self.last.0 == rows {
            return Ok(());
        }
        let erased = self.area.erase(columns);
        let drawn = self.area.draw(&rows, columns);
        self.last = (rows, columns);
        write_to(live, &format!("{erased}{drawn}"))
    }

    fn forget_if_resumed(&mut self) {
        if self.resumed.swap(false, Ordering::Relaxed) {
            self.area = LiveArea::default();
            self.last = (Vec::new(), 0);
        }
    }

    fn is_terminal(&self, stream: Stream) -> bool {
        match stream {
            Stream::Stdout => self.stdout_is_terminal,
            Stream::Stderr => self.stderr_is_terminal,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.redraw(Vec::new());
    }
}

fn write_to(stream: Stream, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    match stream {
        Stream::Stdout => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(text.as_bytes())?;
            stdout.flush()
        }
        Stream::Stderr => io::stderr().lock().write_all(text.as_bytes()),
    }
}
