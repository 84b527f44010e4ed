//! The result of one check: a state, and advice.

use serde::Serialize;
use terminal::style::{Colors, Style, visible_text};

/// The width that remains for text beside the state and the name of a check.
const WIDTH: usize = 80 - MARGIN;
const MARGIN: usize = 6 + NAME;
const NAME: usize = 11;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    Warn,
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) state: State,
    pub(super) says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, state: State::Ok, says: says.into(), advice: None }
    }

    pub(super) fn warn(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, state: State::Warn, says: says.into(), advice: Some(advice.into()) }
    }

    pub(super) fn fail(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, state: State::Fail, says: says.into(), advice: Some(advice.into()) }
    }

    /// Formats the finding as lines that fit a terminal; an arrow marks the advice.
    pub(super) fn render(&self, colors: Colors) -> String {
        let (word, style) = match self.state {
            State::Ok => ("ok", Style::Green),
            State::Warn => ("warn", Style::Yellow),
            State::Fail => ("fail", Style::Red),
        };
        let mut text = format!("{}{}{:<NAME$}", colors.apply(style, word), " ".repeat(6 - word.len()), self.check);
        let margin = format!("\n{}", " ".repeat(MARGIN));
        text.push_str(&wrap(&visible_text(&self.says), WIDTH).join(&margin));
        if let Some(advice) = &self.advice {
            let lines = wrap(&visible_text(advice), WIDTH - 3).join(&format!("{margin}   "));
            text.push_str(&format!("{margin}{} {lines}", colors.apply(style, "->")));
        }
        text
    }
}

pub(super) fn human(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} KB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Wraps text at spaces. A longer word stays whole, so that a path can be copied.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut current = String::new();
        for word in line.split_whitespace() {
            if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_finding_fits_eighty_columns() {
        let says = "a sentence that is rather long, so long in fact that it does not fit the line that it is on";
        let finding = Finding::warn("landlock", says, "do this:\nrun that");
        expect![[r#"
            warn  landlock   a sentence that is rather long, so long in fact that it does
                             not fit the line that it is on
                             -> do this:
                                run that"#]]
        .assert_eq(&finding.render(Colors::Off));
        assert!(finding.render(Colors::On).starts_with("\u{1b}[33mwarn\u{1b}[0m  landlock"));
    }
}
