//! A program in its own terminal: a pseudo-terminal that types, and a screen that shows what the
//! program has drawn.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, OptionalActions, Winsize};

use super::{DEADLINE, until};

/// How often the screen is checked even if nothing was drawn, to notice the deadline.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct Terminal {
    child: Child,
    /// Our side of it.
    keyboard: File,
    /// The program's side. It stays open until the program has ended, so a pause between two of its
    /// processes does not close the terminal.
    line: Option<OwnedFd>,
    reader: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
    /// Notified when something was drawn.
    drawn: Arc<Condvar>,
}

struct Seen {
    screen: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    /// Starts a program with all of its streams at a terminal that is its own, so that Ctrl-C
    /// reaches it.
    pub(crate) fn start(command: &Command) -> Self {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        let side = || line.try_clone().unwrap();
        set_size(&master, 80, 24);
        let mut inside = Command::new("setsid");
        inside.arg("--ctty").arg(command.get_program()).args(command.get_args());
        inside.env_clear().env("TERM", "xterm-256color");
        inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside.current_dir(command.get_current_dir().unwrap());
        let child = inside.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let keyboard = File::from(master);
        let seen = Arc::new(Mutex::new(Seen { screen: vt100::Parser::new(size(24), size(80), 0), bytes: Vec::new() }));
        let drawn: Arc<Condvar> = Arc::default();
        let (mut output, shown, redrawn) = (keyboard.try_clone().unwrap(), seen.clone(), drawn.clone());
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                let mut seen = shown.lock().unwrap();
                seen.screen.process(&buffer[..read]);
                seen.bytes.extend_from_slice(&buffer[..read]);
                redrawn.notify_all();
            }
        });
        Self { child, keyboard, line: Some(line), reader, seen, drawn }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.seen.lock().unwrap().screen.screen_mut().set_size(size(rows), size(columns));
        set_size(&self.keyboard, columns, rows);
    }

    /// What is on the screen now, line by line.
    pub(crate) fn screen(&self) -> String {
        contents(&self.seen.lock().unwrap())
    }

    /// Waits until the screen shows something, and returns the whole screen.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> String {
        self.shows_that(text, |screen| screen.contains(text))
    }

    #[track_caller]
    pub(crate) fn shows_that(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let mut seen = self.seen.lock().unwrap();
            let screen = contents(&seen);
            if holds(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "timed out waiting for {what}; the screen is\n{screen}");
            (seen, _) = self.drawn.wait_timeout(seen, LOOK).unwrap();
            drop(seen);
        }
    }

    /// Everything that was written to the screen so far, as it was written.
    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().bytes).into_owned()
    }

    #[track_caller]
    pub(crate) fn until_seen(&self, text: &str) {
        until(text, || self.seen().contains(text).then_some(()));
    }

    /// Whether a program has taken the whole screen.
    pub(crate) fn is_taken(&self) -> bool {
        self.seen.lock().unwrap().screen.screen().alternate_screen()
    }

    /// Whether a program has asked for marks around pasted text.
    pub(crate) fn marks_pastes(&self) -> bool {
        self.seen.lock().unwrap().screen.screen().bracketed_paste()
    }

    /// Whether what is typed is shown.
    pub(crate) fn echoes(&self) -> bool {
        self.modes().contains(LocalModes::ECHO)
    }

    /// Whether the terminal is in its usual mode: it echoes what is typed and delivers whole lines.
    pub(crate) fn is_in_usual_mode(&self) -> bool {
        self.modes().contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Puts the terminal into its usual mode, as a shell does when its program is stopped.
    pub(crate) fn set_usual_mode(&self) {
        let mut settings = rustix::termios::tcgetattr(&self.keyboard).unwrap();
        settings.local_modes.insert(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        rustix::termios::tcsetattr(&self.keyboard, OptionalActions::Now, &settings).unwrap();
    }

    fn modes(&self) -> LocalModes {
        rustix::termios::tcgetattr(&self.keyboard).unwrap().local_modes
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the program's end, and until everything that it has drawn is on the screen.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = until("the program to end", || self.child.try_wait().unwrap());
        self.line = None;
        until("the rest of what it drew", || self.reader.is_finished().then_some(()));
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).expect("a terminal has a size")
}

fn contents(seen: &Seen) -> String {
    let text = seen.screen.screen().contents();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn set_size(terminal: impl AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(terminal, size).unwrap();
}
