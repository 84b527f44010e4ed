//! A pseudo-terminal with a program in it: what a person types goes in, what they would see comes out.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use super::until;

pub(crate) struct Terminal {
    /// The person's side.
    master: File,
    child: Child,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts a program with all of its streams at a terminal that is its own, so that Ctrl-C reaches it.
    pub(crate) fn start(command: &Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::from(rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap());
        let mut inside = Command::new("setsid");
        inside.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        inside.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside.current_dir(command.get_current_dir().unwrap());
        inside.stdin(Stdio::from(slave.try_clone().unwrap()));
        inside.stdout(Stdio::from(slave.try_clone().unwrap())).stderr(Stdio::from(slave));
        let child = inside.spawn().unwrap();
        let master = File::from(master);
        let seen: Arc<Mutex<String>> = Arc::default();
        let (mut output, notes) = (master.try_clone().unwrap(), seen.clone());
        thread::spawn(move || {
            let mut piece = [0; 4096];
            // The last program to leave ends the terminal, which reads as an error.
            while let Ok(count @ 1..) = output.read(&mut piece) {
                notes.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..count]));
            }
        });
        Self { master, child, seen }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    #[track_caller]
    pub(crate) fn until_seen(&self, text: &str) {
        until(text, || self.seen().contains(text).then_some(()));
    }

    pub(crate) fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// Whether what is typed is shown.
    pub(crate) fn echoes(&self) -> bool {
        tcgetattr(&self.master).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the program to end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
