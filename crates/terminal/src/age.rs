//! Formats ages such as `5m`.

use domain::Millis;

/// Formats the time since a moment as one number with a unit.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_one_figure() {
        assert_eq!([59, 60, 7200, 200_000].map(span), ["59s", "1m", "2h", "2d"]);
    }
}
