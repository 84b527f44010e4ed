//! A list from which the user chooses one entry by typing some of its letters. Pure; reads no keys.

use unicode_width::UnicodeWidthStr;

use crate::fuzzy;
use crate::style::{Colors, Style};
use crate::table::{cut_end, one_line};

pub struct Picker {
    title: String,
    items: Vec<PickerItem>,
    query: String,
    /// The selected row among the items that match.
    row: usize,
}

pub struct PickerItem {
    pub label: String,
    /// Further text, such as the folder and age of a session. It is searched, too.
    pub detail: String,
}

impl Picker {
    pub fn new(title: &str, items: Vec<PickerItem>) -> Self {
        Self { title: title.to_owned(), items, query: String::new(), row: 0 }
    }

    /// Sets the initial text of the search.
    pub fn searching(self, query: &str) -> Self {
        Self { query: query.to_owned(), ..self }
    }

    /// Returns the indices of the items that match the typed text, best first.
    fn fitting(&self) -> Vec<usize> {
        let score = |item: &PickerItem| fuzzy::score(&self.query, &format!("{} {}", item.label, item.detail));
        let mut found: Vec<(i64, usize)> =
            self.items.iter().enumerate().filter_map(|(at, item)| Some((score(item)?, at))).collect();
        found.sort_by_key(|(score, at)| (-score, *at));
        found.into_iter().map(|(_, at)| at).collect()
    }

    pub fn push(&mut self, letter: char) {
        self.query.push(letter);
        self.row = 0;
    }

    pub fn erase(&mut self) {
        self.query.pop();
        self.row = 0;
    }

    pub fn clear(&mut self) {
        self.query.clear();
        self.row = 0;
    }

    pub fn move_by(&mut self, rows: isize) {
        self.row = self.row.saturating_add_signed(rows).min(self.fitting().len().saturating_sub(1));
    }

    /// Returns the index of the selected item in the list that was passed to `new`.
    pub fn chosen(&self) -> Option<usize> {
        self.fitting().get(self.row).copied()
    }

    /// Returns the rows to draw, within this width and height.
    pub fn rows(&self, width: usize, height: usize, colors: Colors) -> Vec<String> {
        let fitting = self.fitting();
        let room = height.saturating_sub(2).max(1);
        let first = (self.row + 1).saturating_sub(room);
        let shown = fitting.iter().enumerate().skip(first).take(room);
        let labels: Vec<String> = shown.clone().map(|(_, at)| one_line(&self.items[*at].label)).collect();
        let widest = labels.iter().map(|label| label.width()).max().unwrap_or(0);
        let label_width = widest.min(width.saturating_sub(4) * 2 / 3);
        let mut rows = Vec::new();
        for ((row, at), label) in shown.zip(&labels) {
            let mark = if row == self.row { "▸ " } else { "  " };
            let label = cut_end(label, label_width);
            let label = format!("{label}{}", " ".repeat(label_width.saturating_sub(label.width())));
            let left = width.saturating_sub(label_width + 4);
            let detail = cut_end(&one_line(&self.items[*at].detail), left);
            let style = if row == self.row { Style::Bold } else { Style::Plain };
            rows.push(format!(
                "{}  {}",
                colors.apply(style, &format!("{mark}{label}")),
                colors.apply(Style::Dim, &detail)
            ));
        }
        if fitting.is_empty() {
            rows.push(colors.apply(Style::Dim, "  nothing fits"));
        }
        let about = format!("{} of {}; ↑↓ move, ⏎ choose, Esc leave", fitting.len(), self.items.len());
        rows.insert(0, format!("{}  {}", colors.apply(Style::Bold, &self.title), colors.apply(Style::Dim, &about)));
        rows.push(format!("/ {}", one_line(&self.query)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn picker() -> Picker {
        let item = |label: &str, detail: &str| PickerItem { label: label.to_owned(), detail: detail.to_owned() };
        Picker::new(
            "Resume",
            vec![
                item("Mend the parser\u{1b}", "~/one, 5m"),
                item("Write docs", "~/two, 2h"),
                item("Tidy", "~/two, 3d"),
            ],
        )
    }

    #[test]
    fn typing_narrows_the_list_and_the_best_fit_is_first() {
        let mut picker = picker();
        expect![[r#"
            Resume  3 of 3; ↑↓ move, ⏎ choose, Esc leave
            ▸ Mend the parser\u{1b}  ~/one, 5m
              Write docs             ~/two, 2h
              Tidy                   ~/two, 3d
            / "#]]
        .assert_eq(&picker.rows(60, 10, Colors::Off).join("\n"));
        "two".chars().for_each(|letter| picker.push(letter));
        picker.move_by(1);
        assert_eq!(picker.chosen(), Some(2));
        picker.push('z');
        assert_eq!(picker.chosen(), None);
        assert!(picker.rows(60, 10, Colors::Off)[1].contains("nothing fits"));
        picker.erase();
        picker.move_by(isize::MAX);
        assert_eq!(picker.chosen(), Some(2));
    }

    #[test]
    fn the_details_of_wide_labels_are_in_one_column() {
        let item = |label: &str| PickerItem { label: label.to_owned(), detail: "1m".to_owned() };
        let picker = Picker::new("Resume", vec![item("日本語"), item("Tidy")]);
        assert_eq!(picker.rows(60, 10, Colors::Off)[1..3], ["▸ 日本語  1m", "  Tidy    1m"]);
    }

    #[test]
    fn the_selection_stays_on_a_small_screen() {
        let mut picker = picker();
        picker.move_by(2);
        let rows = picker.rows(24, 3, Colors::Off);
        assert_eq!((rows.len(), rows[1].trim_end()), (3, "▸ Tidy  ~/two, 3d"));
    }
}
