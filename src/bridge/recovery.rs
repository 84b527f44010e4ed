//! Reaching a daemon, at first and again: what the editor is told meanwhile, and what the daemon is told first.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use wire::frame::{Framing, encode};
use wire::method;
use wire::rpc::{self, RpcError};

use super::Bridge;
use super::link::{Inbox, Link};
use super::memory::Aftermath;

/// What was pending when the daemon went is answered within this time.
const ANSWER_WITHIN: Duration = Duration::from_millis(1_800);

/// How long a daemon that has gone is tried to be brought back before the editor is told that there is none.
const PATIENCE: Duration = Duration::from_secs(20);

/// Between two tries, at first; doubled with each.
const PAUSE: Duration = Duration::from_millis(20);

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

    /// The daemon is gone: its questions are withdrawn, and what nobody can know any more is refused.
    pub(super) fn after_cut(&self) {
        let Aftermath { withdrawn, unknown } = self.line.cut();
        for id in withdrawn {
            self.desk.say(rpc::notification(method::CANCEL_REQUEST, &json!({ "requestId": id })));
        }
        self.refuse(unknown, &gone());
        self.line.note_delivery();
    }
}

fn gone() -> RpcError {
    RpcError::internal("The daemon went away before it answered").with_data(json!({ "retry": true }))
}

/// The prompt did not reach the log, so nothing has come of it.
pub(super) fn not_recorded() -> RpcError {
    RpcError::internal("The daemon went away before it took this prompt").with_data(json!({ "retry": true }))
}

pub(super) fn too_late() -> RpcError {
    RpcError::internal("The daemon went away and is taking long to come back").with_data(json!({ "retry": true }))
}
