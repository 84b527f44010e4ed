//! Ages such as `5m`, and times as the protocol writes them.

use domain::Millis;

/// The time since then, as one number with a unit.
pub fn age(since: Millis) -> String {
    span(Millis::now().0.saturating_sub(since.0) / 1000)
}

pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Reads a UTC time of the protocol, such as `2025-07-01T12:30:00.250Z`.
pub fn read(text: &str) -> Option<Millis> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let days = days(date.next()??, date.next()??, date.next()??)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let seconds = clock.next()?? * 3600 + clock.next()?? * 60 + clock.next()??;
    let millis: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    Some(Millis((days * 86_400 + seconds) * 1000 + millis))
}

/// Days since 1970-01-01, by Howard Hinnant's `days_from_civil`. Its years begin in March.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_protocol_are_read() {
        for (text, millis) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("2000-02-29T23:59:59.999Z", 951_868_799_999),
            ("2000-03-01T00:00:00.0Z", 951_868_800_000),
            ("2024-12-31T23:59:59.000Z", 1_735_689_599_000),
        ] {
            assert_eq!(read(text), Some(Millis(millis)), "{text}");
        }
        for wrong in
            ["", "yesterday", "2024-13-01T00:00:00Z", "2024-01-01", "2024-01-01T00:00:00+01:00", "1969-12-31T00:00:00Z"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_span_is_one_figure() {
        assert_eq!([59, 60, 7200, 200_000].map(span), ["59s", "1m", "2h", "2d"]);
    }
}
