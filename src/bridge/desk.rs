//! The editor's side of the bridge: stdout, in the framing that the editor speaks.
//!
//! Both threads write here, a whole number of messages at a time. Ends the process when the editor no longer reads,
//! since there is nobody left to work for.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use bytes::Bytes;
use wire::frame::{Framing, encode};

pub(super) struct Desk(Mutex<Paper>);

struct Paper {
    /// Without the buffer of `io::stdout`, which would look for line ends in everything.
    stdout: File,
    framing: Framing,
}

impl Desk {
    pub(super) fn new() -> anyhow::Result<Self> {
        let stdout = io::stdout().as_fd().try_clone_to_owned().context("cannot use stdout")?;
        Ok(Self(Mutex::new(Paper { stdout: stdout.into(), framing: Framing::Lines })))
    }

    /// From now on this framing, once the editor has shown it.
    pub(super) fn speak(&self, framing: Option<Framing>) {
        if let Some(framing) = framing {
            self.paper().framing = framing;
        }
    }

    pub(super) fn deliver(&self, frames: &[Bytes]) {
        let mut paper = self.paper();
        let written = match frames {
            [one] => {
                let bytes = encode(paper.framing, one);
                paper.stdout.write_all(&bytes)
            }
            many => {
                let bytes: Vec<u8> = many.iter().flat_map(|frame| encode(paper.framing, frame)).collect();
                paper.stdout.write_all(&bytes)
            }
        };
        if written.is_err() {
            std::process::exit(0);
        }
    }

    pub(super) fn say(&self, message: Vec<u8>) {
        self.deliver(&[message.into()]);
    }

    fn paper(&self) -> std::sync::MutexGuard<'_, Paper> {
        // A write that panicked half-way is no worse than one that failed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
