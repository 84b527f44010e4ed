//! Points in time, as the log stores them and as protocols and people write them. All are in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Writes the time as RFC 3339 to the millisecond, such as `2025-07-01T12:30:00.250Z`.
    pub fn to_rfc3339(self) -> String {
        format!("{:.3}", self.timestamp())
    }

    /// Reads a time of RFC 3339. Returns `None` for anything else, and for times before 1970.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let time: Timestamp = text.parse().ok()?;
        u64::try_from(time.as_millisecond()).ok().map(Self)
    }

    /// Writes the date, such as `2026-01-31`.
    pub fn to_date(self) -> String {
        Offset::UTC.to_datetime(self.timestamp()).date().to_string()
    }

    /// Converts to a timestamp. A time after the year 9999 has no text and is shown as the end of
    /// that year.
    fn timestamp(self) -> Timestamp {
        i64::try_from(self.0).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok()).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_millisecond_and_read_back() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (1_735_689_600_123, "2025-01-01T00:00:00.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Millis(millis).to_rfc3339(), text);
            assert_eq!(Millis::from_rfc3339(text), Some(Millis(millis)));
        }
        assert!(Millis(u64::MAX).to_rfc3339().ends_with('Z'));
        assert_eq!(Millis::from_rfc3339("2000-02-29T00:00:00Z"), Some(Millis(951_782_400_000)));
        for wrong in ["", "yesterday", "2024-13-01T00:00:00Z", "2024-01-01", "1969-12-31T00:00:00Z"] {
            assert_eq!(Millis::from_rfc3339(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (days, expected) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_773, "2026-11-16")]
        {
            assert_eq!(Millis(days * 86_400_000).to_date(), expected);
        }
    }
}
