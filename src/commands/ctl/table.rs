//! Plain tables that fit the terminal. Knows text and widths only.

use std::io::{self, IsTerminal};

/// No column is cut below this.
const NARROWEST: usize = 8;

const GAP: &str = "  ";

pub(super) struct Column {
    title: &'static str,
    cut: Cut,
}

enum Cut {
    Never,
    /// Drops what comes first, as in a long path.
    Start,
    End,
}

impl Column {
    pub(super) fn fixed(title: &'static str) -> Self {
        Self { title, cut: Cut::Never }
    }

    pub(super) fn keeping_start(title: &'static str) -> Self {
        Self { title, cut: Cut::End }
    }

    pub(super) fn keeping_end(title: &'static str) -> Self {
        Self { title, cut: Cut::Start }
    }
}

pub(super) struct Table<const N: usize> {
    columns: [Column; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(super) fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| plain(&cell)));
    }

    /// With the columns cut so that no line is longer than `width`, if that is possible.
    pub(super) fn render(&self, width: Option<usize>) -> String {
        let widths = self.widths(width.unwrap_or(usize::MAX));
        let titles = self.columns.each_ref().map(|column| column.title.to_owned());
        let lines = std::iter::once(&titles).chain(&self.rows).map(|cells| self.line(cells, &widths));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn widths(&self, limit: usize) -> [usize; N] {
        let mut widths = self.columns.each_ref().map(|column| column.title.len());
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let gaps = GAP.len() * N.saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > limit {
            let cuttable = widths.iter_mut().zip(&self.columns).filter(|(_, column)| !matches!(column.cut, Cut::Never));
            match cuttable.map(|(width, _)| width).max() {
                Some(widest) if *widest > NARROWEST => *widest -= 1,
                _ => break,
            }
        }
        widths
    }

    fn line(&self, cells: &[String; N], widths: &[usize; N]) -> String {
        let fitted = cells.iter().zip(widths).zip(&self.columns).map(|((cell, width), column)| {
            let cell = fit(cell, *width, &column.cut);
            format!("{cell:width$}")
        });
        fitted.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }
}

fn fit(cell: &str, width: usize, cut: &Cut) -> String {
    let length = cell.chars().count();
    if length <= width {
        return cell.to_owned();
    }
    match cut {
        Cut::Never => cell.to_owned(),
        Cut::Start => format!("…{}", cell.chars().skip(length + 1 - width).collect::<String>()),
        Cut::End => format!("{}…", cell.chars().take(width - 1).collect::<String>()),
    }
}

/// Text from elsewhere without anything that a terminal would obey.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// None where the output is no terminal, which then gets everything.
pub(super) fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    Some(size.ws_col.into()).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn table() -> Table<3> {
        let mut table = Table::new([Column::keeping_end("ID"), Column::fixed("STATE"), Column::keeping_start("TITLE")]);
        table.row(["0193-abcdef-42".into(), "idle".into(), "A title\nwith \u{1b}[31mtricks".into()]);
        table.row(["7".into(), "running".into(), "short".into()]);
        table
    }

    #[test]
    fn everything_is_shown_where_there_is_room() {
        expect![[r#"
            ID              STATE    TITLE
            0193-abcdef-42  idle     A title with  [31mtricks
            7               running  short"#]]
        .assert_eq(&table().render(None));
    }

    #[test]
    fn the_widest_columns_are_cut_first() {
        let narrow = table().render(Some(34));
        expect![[r#"
            ID            STATE    TITLE
            …3-abcdef-42  idle     A title wi…
            7             running  short"#]]
        .assert_eq(&narrow);
        assert!(narrow.lines().all(|line| line.chars().count() <= 34));
    }
}
