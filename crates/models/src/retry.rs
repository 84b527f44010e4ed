//! Decides when a failed request is sent again: how often, after how long, and when to give up.
//!
//! It sends nothing and never sleeps. The caller decides whether a request may be repeated at all,
//! because only the caller knows what was shown already.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde::Deserialize;
use tokio::time::Instant;

use crate::failure::{Failure, RetryAdvice};

/// The limits on retries.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// The number of requests, including the first.
    pub tries: u32,
    /// The first wait in milliseconds. Each later one is twice as long, up to `longest_ms`.
    pub first_ms: u64,
    pub longest_ms: u64,
    /// The longest wait that a provider may ask for. Beyond that the request fails.
    pub longest_asked_seconds: u64,
    /// The time after which no further request is sent, since the first request or since an answer
    /// broke off after part of it had arrived.
    pub total_seconds: u64,
    /// The shortest wait of which the user is notified.
    pub notice_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            tries: 6,
            first_ms: 500,
            longest_ms: 30_000,
            longest_asked_seconds: 60,
            total_seconds: 240,
            notice_ms: 3_000,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Retry {
    policy: RetryPolicy,
    /// The time of the first request, or of the last break of an answer that had begun.
    started: Instant,
    /// The number of failed requests.
    pub(crate) failed: u32,
}

impl Retry {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self { policy, started: Instant::now(), failed: 0 }
    }

    /// Counts the time for retries from now, because an answer that had begun broke off. The answer
    /// itself may have taken longer than all retries may, with long silences in it.
    pub(crate) fn restart_clock(&mut self) {
        self.started = Instant::now();
    }

    /// Records a failure. Returns how long to wait before the next request, or None to give up.
    pub(crate) fn next_wait(&mut self, failure: &Failure) -> Option<Duration> {
        if failure.again == RetryAdvice::Changed {
            return Some(Duration::ZERO);
        }
        self.failed += 1;
        let wait = match failure.again {
            RetryAdvice::Never | RetryAdvice::Changed => return None,
            RetryAdvice::Soon => self.backoff(),
            RetryAdvice::After(asked) if asked > Duration::from_secs(self.policy.longest_asked_seconds) => return None,
            // Every client gets the same time from the provider, so a random delay keeps them from
            // returning all at once.
            RetryAdvice::After(asked) => asked + asked.mul_f64(0.1 * fastrand::f64()),
        };
        let total = Duration::from_secs(self.policy.total_seconds);
        (self.failed < self.policy.tries && self.started.elapsed() + wait <= total).then_some(wait)
    }

    /// Adds to a failure how long the provider asks to wait, if that is too long.
    pub(crate) fn explain(&self, failure: &mut Failure) {
        if let RetryAdvice::After(asked) = failure.again
            && asked > Duration::from_secs(self.policy.longest_asked_seconds)
        {
            failure.what = format!("{}; it asks to wait {} s", failure.what, asked.as_secs());
        }
    }

    pub(crate) fn deserves_notice(&self, wait: Duration) -> bool {
        wait >= Duration::from_millis(self.policy.notice_ms)
    }

    pub(crate) fn tries(&self) -> u32 {
        self.policy.tries
    }

    fn backoff(&self) -> Duration {
        let doubled = self.policy.first_ms.saturating_mul(1 << (self.failed - 1).min(20));
        Duration::from_millis(doubled.min(self.policy.longest_ms)).mul_f64(0.5 + 0.5 * fastrand::f64())
    }
}

/// Returns how long the provider asks to wait: `Retry-After` in seconds or as a date, or the finer
/// `retry-after-ms`.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let text = text("retry-after")?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ErrorBody;

    fn failure(after: Option<Duration>) -> Failure {
        Failure::of_status(429, &ErrorBody::default(), after)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_with_jitter_up_to_a_limit_and_tries_are_counted() {
        let policy = RetryPolicy { tries: 10, first_ms: 1000, longest_ms: 4000, ..RetryPolicy::default() };
        let mut retry = Retry::new(policy);
        for most in [1000, 2000, 4000, 4000, 4000, 4000, 4000, 4000, 4000] {
            let wait = retry.next_wait(&failure(None)).unwrap();
            assert!((most / 2..=most).contains(&wait.as_millis()), "{wait:?}");
        }
        assert_eq!(retry.next_wait(&failure(None)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_that_a_provider_asks_for_is_respected_up_to_a_limit() {
        let mut retry = Retry::new(RetryPolicy::default());
        let wait = retry.next_wait(&failure(Some(Duration::from_secs(20)))).unwrap();
        assert!((20.0..=22.0).contains(&wait.as_secs_f64()), "{wait:?}");
        assert!(retry.deserves_notice(wait));
        assert_eq!(retry.next_wait(&failure(Some(Duration::from_secs(61)))), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_request_begins_after_the_time_is_up() {
        let mut retry = Retry::new(RetryPolicy::default());
        tokio::time::advance(Duration::from_secs(240)).await;
        assert_eq!(retry.next_wait(&failure(None)), None);
        retry.restart_clock();
        assert!(retry.next_wait(&failure(None)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_a_retry_cannot_fix_are_not_retried() {
        let mut retry = Retry::new(RetryPolicy::default());
        assert_eq!(retry.next_wait(&Failure::of_status(400, &ErrorBody::default(), None)), None);
        assert_eq!(retry.next_wait(&failure(None).after_output()), None);
    }

    #[test]
    fn retry_after_is_read_as_seconds_as_a_date_and_in_milliseconds() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (pairs, wait) in [
            (&[("retry-after", "7")][..], Some(Duration::from_secs(7))),
            (&[("retry-after", "0.5")], Some(Duration::from_millis(500))),
            (&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], Some(Duration::from_secs(30))),
            (&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(Duration::ZERO)),
            (&[("retry-after", "7"), ("retry-after-ms", "20")], Some(Duration::from_millis(20))),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-1")], None),
            (&[], None),
        ] {
            assert_eq!(retry_after(&headers(pairs), now), wait, "{pairs:?}");
        }
    }
}
