//! The editor's side of the bridge: stdout, in the framing that the editor uses.
//!
//! Both threads write here, whole messages at a time. The process exits when the editor no longer
//! reads.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::Context;
use bytes::Bytes;
use wire::frame::{Framing, encode};

pub(super) struct EditorOutput {
    /// Stdout without the line buffer of `io::stdout`, which would search every message for line
    /// ends.
    stdout: Mutex<File>,
    /// Outside the mutex, which a thread holds while the editor does not read. Reading the editor's
    /// messages sets the framing and must not wait for that.
    framing: OnceLock<Framing>,
}

impl EditorOutput {
    pub(super) fn new() -> anyhow::Result<Self> {
        let stdout = io::stdout().as_fd().try_clone_to_owned().context("cannot use stdout")?;
        Ok(Self { stdout: Mutex::new(stdout.into()), framing: OnceLock::new() })
    }

    /// Sets the framing that the editor uses. Never waits.
    pub(super) fn set_framing(&self, framing: Option<Framing>) {
        if let Some(framing) = framing {
            let _ = self.framing.set(framing);
        }
    }

    pub(super) fn deliver(&self, frames: &[Bytes]) {
        if frames.is_empty() {
            return;
        }
        let framing = self.framing.get().copied().unwrap_or(Framing::Lines);
        // After a panic during a write, the output is no worse than after a failed write.
        let mut stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match frames {
            [one] => stdout.write_all(&encode(framing, one)),
            many => {
                let bytes: Vec<u8> = many.iter().flat_map(|frame| encode(framing, frame)).collect();
                stdout.write_all(&bytes)
            }
        };
        if written.is_err() {
            std::process::exit(0);
        }
    }

    pub(super) fn send(&self, message: Vec<u8>) {
        self.deliver(&[message.into()]);
    }
}
