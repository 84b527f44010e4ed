//! Kills a daemon at random instants, again and again, while several clients send prompts. Each
//! time, everything that it had acknowledged must be there: once, in order, and closed.
//!
//! `ACPD_KILLS` makes the run longer (`just crash`), and `ACPD_SEED` repeats a run. The figures are
//! printed at the end.

mod client;
mod log;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;

use self::client::Client;
use self::log::Tally;
use crate::harness::{Home, until};

const CLIENTS: usize = 4;

/// The longest time between the moment when all clients work and the kill; and the longest time
/// after a start, for a daemon that is killed while it still resumes sessions.
const LATEST: Duration = Duration::from_millis(400);
const EARLY: Duration = Duration::from_millis(60);

/// Random numbers that are the same for the same seed (xorshift).
pub(crate) struct Dice(u64);

impl Dice {
    /// Uses `ACPD_SEED` or a new seed, and prints it, so a failure can be repeated.
    pub(crate) fn rolled() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = number("ACPD_SEED", u64::from(now.subsec_nanos()) + 1);
        eprintln!("ACPD_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let limit = u64::try_from(limit.as_micros()).unwrap();
        Duration::from_micros(self.0 % limit)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(Duration::from_micros(many)).is_zero()
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn after_repeated_kills_everything_acknowledged_is_there_once_and_closed() {
    let kills = usize::try_from(number("ACPD_KILLS", 15)).unwrap();
    let seed = number("ACPD_SEED", 0x9e37_79b9);
    let mut dice = Dice(seed);
    let home = Home::new();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|index| Client::new(&home, index)).collect();
    let (mut slowest, begun) = (Duration::ZERO, Instant::now());
    for _ in 0..kills {
        let early = dice.one_in(5);
        let wait = dice.below(if early { EARLY } else { LATEST });
        let started = Instant::now();
        let mut daemon = serve(&home);
        let at_work = Barrier::new(CLIENTS + 1);
        thread::scope(|scope| {
            let running: Vec<_> = clients
                .iter_mut()
                .map(|client| {
                    let (at_work, home) = (&at_work, &home);
                    scope.spawn(move || {
                        // Even after a failure, because the others wait at the barrier.
                        let returned = catch_unwind(AssertUnwindSafe(|| early || client.return_and_check().is_some()));
                        at_work.wait();
                        let returned = returned.unwrap_or_else(|panic| resume_unwind(panic));
                        assert!(returned, "the daemon hung up before it was killed: {}", home.log());
                        client.work(early);
                    })
                })
                .collect();
            at_work.wait();
            if !early {
                slowest = slowest.max(started.elapsed());
            }
            thread::sleep(wait);
            daemon.send(Signal::KILL);
            daemon.wait();
            running.into_iter().for_each(|client| client.join().expect("the client found all in order"));
        });
    }
    let _daemon = serve(&home);
    let mut tally = Tally::default();
    for client in &mut clients {
        client.return_and_check().expect("the daemon is there");
        tally += client.tally();
    }
    // On a busy machine many daemons are killed before they have answered anything.
    assert!(tally.acknowledged * 5 > kills, "the daemon had something to do");
    eprintln!(
        "{kills} kills (seed {seed}) in {:.0?}: {} prompts acknowledged, none lost; {} under way at a kill, {} of them recorded \
         as interrupted; {} events in the logs; all sessions back and checked within {slowest:.1?} of a start",
        begun.elapsed(),
        tally.acknowledged,
        tally.under_way,
        tally.interrupted,
        tally.events,
    );
}

fn serve(home: &Home) -> crate::harness::Daemon {
    // The children of the killed daemon end with its control pipes.
    until("the lock to be free", || home.daemon().is_none().then_some(()));
    let mut command = home.acpd(&["serve"]);
    command.env("ACPD__SESSION__APPROVAL", "never").env("ACPD__LOG__FILTER", "warn");
    let daemon = home.start(command);
    // Not the socket that the killed daemon left to a child that was just starting.
    until("the new daemon to answer", || {
        let status: Value = serde_json::from_slice(&home.run(&["ctl", "status", "--json"]).stdout).ok()?;
        (status["pid"] == daemon.id()).then_some(())
    });
    daemon
}
