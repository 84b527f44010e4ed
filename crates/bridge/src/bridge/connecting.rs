//! Connects to a daemon or starts one, when the bridge starts and after each lost connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::Bridge;
use super::daemon_link::{DaemonLink, Inbox};
use super::errors;
use super::machine::Input;

/// How soon requests that were pending when the daemon died are answered.
const ANSWER_WITHIN: Duration = Duration::from_millis(1_800);

/// How long the bridge tries to bring a daemon back before it reports to the editor that there is
/// none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause after the first failed attempt. It doubles with each further one.
const PAUSE: Duration = Duration::from_millis(20);

/// If more than `LOSSES` connections end without a goodbye within `LOSS_WINDOW`, the bridge pauses
/// before it tries again.
const LOSSES: usize = 5;
const LOSS_WINDOW: Duration = Duration::from_secs(5);

/// How long the bridge pauses if the daemon closes every connection.
const BACKOFF: Duration = Duration::from_secs(2);

/// The times at which the last connections ended.
#[derive(Default)]
pub(super) struct LossRate(VecDeque<Instant>);

impl LossRate {
    /// Records a loss. Returns whether there were too many.
    fn is_too_fast(&mut self, now: Instant) -> bool {
        self.0.push_back(now);
        self.0.retain(|end| now.duration_since(*end) < LOSS_WINDOW);
        self.0.len() > LOSSES
    }
}

impl Bridge {
    /// Connects and introduces the editor. If that fails, waits until the machine requests a daemon
    /// again and returns None.
    pub(super) fn connect(self: &Arc<Self>) -> Option<Inbox> {
        let started = Instant::now();
        let mut pause = PAUSE;
        loop {
            match DaemonLink::open(&self.paths, &self.program, &self.name, self.agent.as_deref()) {
                Ok((link, inbox)) => {
                    let introduction = self.shared.link_up(link, started + ANSWER_WITHIN);
                    self.carry_out_in_place(introduction);
                    return Some(inbox);
                }
                Err(error) if !error.is_temporary() || started.elapsed() > CONNECT_TIMEOUT => {
                    self.carry_out(self.shared.step(Input::NoDaemon(error.into_rpc())));
                    self.shared.wait_until_wanted();
                    return None;
                }
                Err(_) if started.elapsed() > ANSWER_WITHIN => {
                    self.carry_out(self.shared.step(Input::ConnectTimedOut));
                }
                Err(_) => {}
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Handles the loss of the connection. Returns when the machine requests a daemon.
    pub(super) fn after_loss(self: &Arc<Self>, losses: &mut LossRate) {
        let mut backs_off = false;
        let outcome = self.shared.link_lost(|| {
            backs_off = losses.is_too_fast(Instant::now());
            backs_off.then(|| errors::ends_every_connection(&self.paths.daemon_log()))
        });
        self.carry_out(outcome);
        if backs_off {
            thread::sleep(BACKOFF);
        }
        self.shared.wait_until_wanted();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bridge_backs_off_after_frequent_disconnects_only() {
        let start = Instant::now();
        let (mut fast, mut slow) = (LossRate::default(), LossRate::default());
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let too_fast: Vec<bool> = (0..7).map(|end| fast.is_too_fast(after(end * 100))).collect();
        assert_eq!(too_fast, [false, false, false, false, false, true, true]);
        assert!(!(0..100).any(|end| slow.is_too_fast(after(end * 2_000))));
    }
}
