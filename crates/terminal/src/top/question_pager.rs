//! A permission question that fills the screen, and how much of it was shown. Knows no terminal.

use domain::card::{OpenQuestion, SessionCard};
use domain::inquiry::Inquiry;
use domain::{QuestionId, SessionId};

use crate::consent::Consent;
use crate::fold::folded;
use crate::style::Colors;

pub struct QuestionPager {
    pub session: SessionId,
    pub question: QuestionId,
    pub title: String,
    /// What the model asks, if this is an inquiry.
    pub inquiry: Option<Inquiry>,
    lines: Vec<String>,
    /// The number of bytes that the daemon omitted.
    pub cut: usize,
    /// The first row on the screen.
    top: usize,
    /// How many rows, counted from the first, have been on the screen at the current width.
    seen: usize,
    width: usize,
    /// The height of the screen, and the number of rows of the question.
    height: usize,
    rows: usize,
}

impl QuestionPager {
    pub fn of(card: &SessionCard, question: &OpenQuestion) -> Self {
        let consent = Consent::of(question);
        let missing = consent.missing(&format!("acpd ctl export {}", card.id));
        Self {
            session: card.id.clone(),
            question: question.id.clone(),
            title: consent.title(),
            inquiry: question.inquiry.clone(),
            lines: consent.lines(Colors::Off).into_iter().chain(missing).collect(),
            cut: consent.cut(),
            top: 0,
            seen: 0,
            width: 0,
            height: 0,
            rows: 0,
        }
    }

    /// Returns the rows that fit on the screen. Counts them as read if all rows before them were
    /// shown.
    pub fn rows(&mut self, width: u16, height: u16) -> Vec<String> {
        let (width, height) = (usize::from(width).max(1), usize::from(height));
        let rows: Vec<String> = self.lines.iter().flat_map(|line| folded(line, width)).collect();
        if self.width != width {
            // The rows are different at another width, so none of them has been shown.
            (self.width, self.seen) = (width, 0);
        }
        (self.height, self.rows) = (height, rows.len());
        self.top = self.top.min(self.rows.saturating_sub(height));
        if self.top <= self.seen {
            self.seen = self.seen.max((self.top + height).min(self.rows));
        }
        rows.into_iter().skip(self.top).take(height).collect()
    }

    /// Whether every row has been on the screen and no byte is missing.
    pub fn is_read(&self) -> bool {
        self.cut == 0 && self.rows > 0 && self.seen >= self.rows
    }

    pub fn left(&self) -> usize {
        self.rows.saturating_sub(self.top + self.height)
    }

    pub fn move_by(&mut self, rows: isize) {
        self.top = self.top.saturating_add_signed(rows).min(self.rows.saturating_sub(self.height));
    }

    pub fn page(&mut self, pages: isize) {
        let page = isize::try_from(self.height.max(2) - 1).unwrap_or(isize::MAX);
        self.move_by(pages.saturating_mul(page));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pager(command: &str, cut: usize) -> QuestionPager {
        let question = json!({ "id": "q", "call": "c", "title": "Run", "proposal": { "tool": "bash", "kind": "execute",
            "preview": [{ "type": "text", "text": command }], "cut": cut } });
        let card = json!({ "id": "s", "title": null, "cwd": "/", "state": "waiting", "clients": [], "model": "m",
            "mode": "full", "approval": "ask", "messages": 0, "created": 0, "updated": 0,
            "usage": { "input": 0, "output": 0 }, "questions": [question] });
        let card: SessionCard = serde_json::from_value(card).unwrap();
        QuestionPager::of(&card, &card.questions[0])
    }

    #[test]
    fn a_question_is_read_when_every_row_was_on_the_screen() {
        let mut pager = pager("1\n2\n3\n4\n5\n6\n7\n8\n9", 0);
        assert_eq!(pager.rows(80, 3), ["  │ 1", "  │ 2", "  │ 3"]);
        assert!(!pager.is_read());
        pager.move_by(isize::MAX);
        assert_eq!(pager.rows(80, 3), ["  │ 7", "  │ 8", "  │ 9"]);
        assert!(!pager.is_read(), "what is in between was never there");
        pager.move_by(-3);
        assert_eq!(pager.rows(80, 3), ["  │ 4", "  │ 5", "  │ 6"]);
        assert!(!pager.is_read(), "the end was there before what leads to it");
        pager.page(9);
        pager.rows(80, 3);
        assert!(pager.is_read());
        // At another width the rows are different.
        pager.rows(5, 3);
        assert!(!pager.is_read());
    }

    #[test]
    fn a_truncated_question_never_counts_as_read() {
        let mut pager = pager("1", 9);
        assert!(pager.rows(80, 9).last().unwrap().contains("cut, 9 more bytes"));
        assert!(!pager.is_read());
    }
}
