//! A file for the output of a command that is too long to keep in memory. It receives all of it,
//! from the first byte.
//!
//! The file is created only when the output overflows. If it cannot be written, the output is cut
//! as it would be without a file.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::SharedOutput;

/// The largest size of one file, in bytes: as much as file tools read.
const LARGEST: u64 = crate::confine::LARGEST_FILE;

pub(crate) struct Spill {
    path: PathBuf,
    state: State,
}

enum State {
    /// Everything fits in memory so far.
    Waiting,
    Writing(File, u64),
    /// The file is full, or could not be written.
    Done,
}

impl Spill {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, state: State::Waiting }
    }

    /// Receives bytes that are about to be added to the output.
    pub(crate) async fn take(&mut self, bytes: &[u8], output: &SharedOutput) {
        let state = std::mem::replace(&mut self.state, State::Done);
        self.state = match state {
            State::Done => return,
            State::Waiting if !output.lock().overflows_with(bytes.len()) => State::Waiting,
            State::Waiting => {
                let before = output.lock().bytes();
                let (path, all) = (self.path.clone(), [before.as_slice(), bytes].concat());
                let length = all.len() as u64;
                match blocking(move || create(&path, &all)).await {
                    Ok(file) => {
                        output.lock().keep_in(self.path.clone());
                        State::Writing(file, length)
                    }
                    // The output is cut as it would be without a file.
                    Err(_) => State::Done,
                }
            }
            State::Writing(_, written) if written + bytes.len() as u64 > LARGEST => State::Done,
            State::Writing(mut file, written) => {
                let more = bytes.to_vec();
                let written = written + more.len() as u64;
                // If the disk is full, the rest is missing at the end of the file.
                match blocking(move || file.write_all(&more).map(|()| file)).await {
                    Ok(file) => State::Writing(file, written),
                    Err(_) => State::Done,
                }
            }
        };
    }
}

/// Runs file work on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn create(path: &Path, bytes: &[u8]) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}
