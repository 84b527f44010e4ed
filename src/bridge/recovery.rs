//! Reaching a daemon, at first and again: what the editor is told meanwhile, and what the daemon is told first.

use std::collections::VecDeque;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use wire::frame::{Framing, encode};
use wire::method;
use wire::rpc::{self, RpcError};

use super::Bridge;
use super::daemon_link::{Inbox, Link};
use super::state::Aftermath;

/// What was pending when the daemon went is answered within this time.
const ANSWER_WITHIN: Duration = Duration::from_millis(1_800);

/// How long a daemon that has gone is tried to be brought back before the editor is told that there is none.
const PATIENCE: Duration = Duration::from_secs(20);

/// Between two tries, at first; doubled with each.
const PAUSE: Duration = Duration::from_millis(20);

/// So many connections that ended without a goodbye within `PACE` are too many to be tried again at once.
const ENDS: usize = 5;
const PACE: Duration = Duration::from_secs(5);

/// How long a daemon that hangs up on us again and again is left alone.
const REST: Duration = Duration::from_secs(2);

/// When the last connections ended.
#[derive(Default)]
pub(super) struct Pace(VecDeque<Instant>);

impl Pace {
    /// Another has ended; true if that happens too often.
    fn is_too_fast(&mut self, now: Instant) -> bool {
        self.0.push_back(now);
        self.0.retain(|end| now.duration_since(*end) < PACE);
        self.0.len() > ENDS
    }
}

impl Bridge {
    /// Connects, with everything said that the daemon must know. None if that was given up; by then somebody wants a
    /// daemon again.
    pub(super) fn connect(&self) -> Option<Inbox> {
        let started = Instant::now();
        let mut pause = PAUSE;
        loop {
            match Link::open(&self.places, &self.name) {
                Ok((link, inbox)) => {
                    for message in self.line.introduction(started + ANSWER_WITHIN) {
                        link.send(&encode(Framing::Lines, &message));
                    }
                    self.line.up(link);
                    return Some(inbox);
                }
                Err(error) if !error.is_passing() || started.elapsed() > PATIENCE => {
                    let error = error.into_rpc();
                    let waiting = self.line.down(error.clone());
                    self.refuse(waiting, &error);
                    self.line.note_delivery();
                    self.line.wait_until_wanted();
                    return None;
                }
                Err(_) if started.elapsed() > ANSWER_WITHIN => {
                    self.refuse(self.line.give_up(), &too_late());
                    self.line.note_delivery();
                }
                Err(_) => {}
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// The daemon is gone: its questions are withdrawn, and what nobody can know any more is refused. Returns when one
    /// may be wanted again.
    pub(super) fn after_cut(&self, pace: &mut Pace) {
        let Aftermath { withdrawn, unknown, in_good_order } = self.line.cut();
        for id in withdrawn {
            self.editor.send(rpc::notification(method::CANCEL_REQUEST, &json!({ "requestId": id })));
        }
        self.refuse(unknown, &gone());
        if !in_good_order && pace.is_too_fast(Instant::now()) {
            let error = hangs_up(&self.places.daemon_log());
            self.refuse(self.line.down(error.clone()), &error);
            self.line.note_delivery();
            thread::sleep(REST);
        }
        self.line.note_delivery();
        self.line.wait_until_wanted();
    }
}

fn gone() -> RpcError {
    RpcError::retry("The daemon went away before it answered")
}

fn hangs_up(log: &Path) -> RpcError {
    let hint = format!("its log says why: {}, or `journalctl --user --unit acpd`", log.display());
    RpcError::internal("The acpd daemon ends every connection", json!({ "retry": true, "hint": hint }))
}

pub(super) fn too_long(length: usize, limit: usize) -> RpcError {
    let hint = "`limits.frame` in the daemon's configuration sets the limit";
    let data = json!({ "length": length, "limit": limit, "hint": hint });
    RpcError::invalid_request("The message is longer than the daemon takes", data)
}

/// The prompt did not reach the log, so nothing has come of it.
pub(super) fn not_recorded() -> RpcError {
    RpcError::retry("The daemon went away before it took this prompt")
}

/// The session is there, and the daemon cannot open it for now.
pub(super) fn not_back(reason: &RpcError) -> RpcError {
    let data = json!({ "retry": true, "reason": reason.message });
    RpcError::internal("The session could not be opened again after the daemon went away", data)
}

pub(super) fn too_late() -> RpcError {
    RpcError::retry("The daemon went away and is taking long to come back")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ends_in_a_short_time_are_too_many_and_the_same_number_over_a_day_is_not() {
        let start = Instant::now();
        let (mut fast, mut slow) = (Pace::default(), Pace::default());
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let too_fast: Vec<bool> = (0..7).map(|end| fast.is_too_fast(after(end * 100))).collect();
        assert_eq!(too_fast, [false, false, false, false, false, true, true]);
        assert!(!(0..100).any(|end| slow.is_too_fast(after(end * 2_000))));
    }
}
