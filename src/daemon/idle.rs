//! Decides when a daemon without clients exits.

use std::time::Duration;

use acpd_actors::Runtime;
use tokio::time::Instant;

use crate::config::ExitWhenIdle;

/// The default limit if a service manager starts the daemon again.
const DEFAULT_LIMIT: Duration = Duration::from_secs(3600);

/// The longest pause between two checks. Each check wakes the process, so only short limits are
/// checked more often.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Returns how long the daemon may be idle, or None if it never exits.
pub(super) fn limit(setting: ExitWhenIdle, activated: bool) -> Option<Duration> {
    match setting {
        ExitWhenIdle::Off => None,
        ExitWhenIdle::Auto => activated.then_some(DEFAULT_LIMIT),
        ExitWhenIdle::After(time) => Some(time),
    }
}

/// Resolves when no client has been connected and no session in memory for this long. A client that
/// connects at this very moment receives a goodbye, like any other, and reaches the next daemon.
pub(super) async fn over(runtime: &Runtime, idle_limit: Option<Duration>) {
    let Some(idle_limit) = idle_limit else { return std::future::pending().await };
    let pause = (idle_limit / 4).clamp(Duration::from_millis(50), MAX_POLL_INTERVAL);
    let mut empty_since: Option<Instant> = None;
    loop {
        tokio::time::sleep(pause).await;
        let is_empty = |found: &acpd_actors::Overview| found.sessions.is_empty() && found.connections.is_empty();
        empty_since = match runtime.describe().await {
            Some(found) if is_empty(&found) => empty_since.or_else(|| Some(Instant::now())),
            Some(_) | None => None,
        };
        if empty_since.is_some_and(|since| since.elapsed() >= idle_limit) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_daemon_that_can_be_started_again_exits_when_idle() {
        assert_eq!(limit(ExitWhenIdle::Auto, true), Some(DEFAULT_LIMIT));
        assert_eq!(limit(ExitWhenIdle::Auto, false), None);
        assert_eq!(limit(ExitWhenIdle::Off, true), None);
        let minute = Duration::from_secs(60);
        assert_eq!(limit(ExitWhenIdle::After(minute), false), Some(minute));
    }
}
