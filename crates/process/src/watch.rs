//! Watches one command until it ends: collects its output, and ends it when it is cancelled or its
//! time is up.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

use crate::output::Output;
use crate::spill::Spill;
use crate::{CommandExit, RunningCommand};

/// How often new output is shown: often at first and then less, because each update is an event of
/// the log. A command that writes for ten minutes causes about 180 updates.
const FIRST_INTERVAL: Duration = Duration::from_millis(200);
const LAST_INTERVAL: Duration = Duration::from_secs(5);
const MAX_TIME_SHARE: u32 = 20;

/// How long the helper of a watched command may take to end everything before it is killed. It
/// plans for 1.6 seconds, see `helper`, and a cancelled command is gone within 2 seconds.
const HELPER_EXIT_TIMEOUT: Duration = Duration::from_millis(1900);

/// How long to wait for the end of the pipe after all processes have ended. Only a process of
/// another user can hold it open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// After this many bytes, the output is read more slowly, so that it does not monopolise the
/// thread.
const THROTTLE_AFTER_BYTES: u64 = 16 << 20;

/// A timeout that is never reached. The clock has no room for the longest `Duration`.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How many bytes of output are shown while the command runs. Each update is stored in the log, so
/// it is a screen or two.
pub const LIVE_LIMIT: usize = 4 * 1024;

/// How a command ended, and whether it was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandResult {
    pub exit: CommandExit,
    pub interruption: Option<Interruption>,
}

/// Why a command was stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    Cancelled,
    TimedOut(Duration),
}

/// The output of a command, shared between the task that collects it and its readers.
pub struct SharedOutput {
    output: Mutex<Output>,
    /// The file to create if the output is too long to keep in memory.
    overflow: Option<PathBuf>,
    /// Output of a background command that clients have not seen yet.
    unseen: Option<Mutex<Output>>,
}

impl SharedOutput {
    pub fn new(limit: usize) -> Self {
        Self { output: Mutex::new(Output::new(limit)), overflow: None, unseen: None }
    }

    /// Sets a file for output beyond the limit. The file and its folder are created when they are
    /// needed.
    #[must_use]
    pub fn overflowing_to(mut self, file: Option<PathBuf>) -> Self {
        self.overflow = file;
        self
    }

    /// Creates an output that also keeps what clients have not seen yet, apart from what the model
    /// has not read yet.
    pub fn shown(limit: usize) -> Self {
        Self { unseen: Some(Mutex::new(Output::new(LIVE_LIMIT))), ..Self::new(limit) }
    }

    fn push(&self, bytes: &[u8]) {
        self.lock().push(bytes);
        if let Some(unseen) = &self.unseen {
            unseen.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    }

    /// Takes the output that clients have not seen yet.
    pub(crate) fn take_unseen(&self) -> Option<String> {
        let unseen = self.unseen.as_ref()?;
        let text = unseen.lock().unwrap_or_else(PoisonError::into_inner).take().text();
        Some(text).filter(|text| !text.is_empty())
    }

    pub fn lock(&self) -> MutexGuard<'_, Output> {
        // Every operation leaves the output consistent, so a poisoned lock is harmless.
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches a command until everything that it started is gone. Calls `show` from time to time when
/// there is new output.
pub async fn watch(
    started: RunningCommand,
    captured: &SharedOutput,
    timeout: Option<Duration>,
    cancelled: impl Future<Output = ()>,
    mut show: impl FnMut(),
) -> CommandResult {
    let RunningCommand { mut process, output: mut pipe } = started;
    let mut buffer = vec![0; 64 * 1024];
    let mut interruption = None;
    let mut open = true;
    let (mut total, mut shown) = (0_u64, 0);
    let began = Instant::now();
    let mut next_show = began + FIRST_INTERVAL;
    let mut deadline = Instant::now() + timeout.unwrap_or(FOREVER);
    let mut cancelled = pin!(cancelled);
    let mut spill = captured.overflow.clone().map(Spill::new);

    let ending = loop {
        tokio::select! {
            read = pipe.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(length) => {
                    add(&buffer[..length], captured, &mut spill).await;
                    total += length as u64;
                    if total > THROTTLE_AFTER_BYTES {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            },
            ending = process.ended() => break ending,
            () = &mut cancelled, if interruption.is_none() => {
                interruption = Some(Interruption::Cancelled);
                deadline = Instant::now() + HELPER_EXIT_TIMEOUT;
                process.end();
            }
            () = sleep_until(deadline) => {
                deadline = Instant::now() + HELPER_EXIT_TIMEOUT;
                match interruption {
                    None => {
                        interruption = Some(Interruption::TimedOut(timeout.unwrap_or(FOREVER)));
                        process.end();
                    }
                    Some(_) => process.kill(),
                }
            }
            () = sleep_until(next_show), if total > shown => {
                shown = total;
                next_show = Instant::now() + pause(began.elapsed());
                show();
            }
        }
    };
    if open {
        drain(&mut pipe, &mut buffer, captured, &mut spill).await;
    }
    CommandResult { exit: ending, interruption }
}

async fn add(bytes: &[u8], output: &SharedOutput, spill: &mut Option<Spill>) {
    if let Some(spill) = spill {
        spill.take(bytes, output).await;
    }
    output.push(bytes);
}

/// Reads what is left in the pipe after the command has ended.
async fn drain(pipe: &mut pipe::Receiver, buffer: &mut [u8], output: &SharedOutput, spill: &mut Option<Spill>) {
    let rest = async {
        while let Ok(length @ 1..) = pipe.read(buffer).await {
            add(&buffer[..length], output, spill).await;
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
}

/// Returns the pause before the next update of a command that has run for this long.
pub fn pause(running: Duration) -> Duration {
    (running / MAX_TIME_SHARE).clamp(FIRST_INTERVAL, LAST_INTERVAL)
}

impl CommandResult {
    pub fn exit_code(&self) -> Option<i32> {
        match self.exit {
            CommandExit::Exited(code) => Some(code),
            CommandExit::Signalled(_) | CommandExit::Failed(_) | CommandExit::TooMany(_) | CommandExit::Lost => None,
        }
    }

    pub fn signal(&self) -> Option<i32> {
        match self.exit {
            CommandExit::Signalled(signal) => Some(signal),
            CommandExit::Exited(_) | CommandExit::Failed(_) | CommandExit::TooMany(_) | CommandExit::Lost => None,
        }
    }

    /// Returns whether it ended by itself with status 0.
    pub fn is_success(&self) -> bool {
        self.interruption.is_none() && self.exit == CommandExit::Exited(0)
    }

    /// Returns a description such as "exit status 1".
    pub fn describe(&self) -> String {
        match (self.interruption, &self.exit) {
            (Some(Interruption::Cancelled), _) => "stopped, with everything it started".to_owned(),
            (Some(Interruption::TimedOut(timeout)), _) => {
                format!(
                    "timed out after {} ms; the command and everything it started were stopped",
                    timeout.as_millis()
                )
            }
            (None, CommandExit::Exited(code)) => format!("exit status {code}"),
            (None, CommandExit::Signalled(signal)) => format!("ended by signal {signal}{}", signal_name(*signal)),
            (None, CommandExit::Failed(reason)) => reason.clone(),
            (None, CommandExit::TooMany(most)) => {
                format!("more than {most} processes at once; the command and everything it started were killed")
            }
            (None, CommandExit::Lost) => {
                "the command's helper process was killed; what was left of the command was stopped".to_owned()
            }
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (HUP)",
        2 => " (INT)",
        3 => " (QUIT)",
        6 => " (ABRT)",
        9 => " (KILL)",
        11 => " (SEGV)",
        13 => " (PIPE)",
        15 => " (TERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_minutes_of_output_cost_the_log_less_than_a_megabyte() {
        let (mut running, mut looks) = (Duration::ZERO, 0);
        while running < Duration::from_secs(600) {
            running += pause(running);
            looks += 1;
        }
        assert!(looks < 200, "{looks}");
        assert!(looks * LIVE_LIMIT < 1 << 20);
    }
}
