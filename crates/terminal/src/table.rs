//! Plain-text tables that fit the width of the terminal.

use std::io;
use std::path::Path;

use domain::escape;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::style::{Colors, Style, terminal_width, visible_text};
use crate::text_flow::wrapped;

/// The smallest width to which a column is cut.
const MIN_COLUMN_WIDTH: usize = 8;

/// The width below which optional columns are omitted before a column is cut further.
const READABLE: usize = 22;

/// The number of characters of an id that are shown if the width is limited: its last group, which
/// every subcommand accepts.
const SHORT_ID: usize = 12;

const GAP: &str = "  ";

pub struct Column {
    title: &'static str,
    cut: Cut,
    style: fn(&str) -> Style,
    /// If this is not 0, the column is omitted from a narrow table, the highest rank first.
    rank: u8,
}

enum Cut {
    Never,
    /// Drops the start, as in a long path.
    Start,
    End,
    /// Drops the start without an ellipsis, because the rest is usable as an id.
    Id,
}

impl Column {
    pub fn fixed(title: &'static str) -> Self {
        Self::new(title, Cut::Never)
    }

    pub fn keeping_start(title: &'static str) -> Self {
        Self::new(title, Cut::End)
    }

    pub fn keeping_end(title: &'static str) -> Self {
        Self::new(title, Cut::Start)
    }

    pub fn id(title: &'static str) -> Self {
        Self::new(title, Cut::Id)
    }

    /// Sets the style of each cell by its text.
    pub(crate) fn styled(self, style: fn(&str) -> Style) -> Self {
        Self { style, ..self }
    }

    /// Lets the column be omitted from a narrow table, before columns with a lower rank.
    pub fn optional(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    fn new(title: &'static str, cut: Cut) -> Self {
        Self { title, cut, style: |_| Style::Plain, rank: 0 }
    }
}

/// The width and colours of the output.
#[derive(Clone, Copy)]
pub struct Viewport {
    /// None if the output is not a terminal; then nothing is cut.
    pub width: Option<usize>,
    pub colors: Colors,
}

impl Viewport {
    pub fn stdout() -> Self {
        Self { width: terminal_width(io::stdout()), colors: Colors::stdout() }
    }

    /// Formats a path, on a terminal with `~` for the home folder.
    pub fn folder(self, path: &Path, home: &Path) -> String {
        match path.strip_prefix(home) {
            Ok(below) if self.width.is_some() => Path::new("~").join(below).display().to_string(),
            _ => path.display().to_string(),
        }
    }

    /// Returns the part of an id that tables show.
    pub fn id(self, id: &str) -> String {
        if self.width.is_some() { end_of(id, SHORT_ID) } else { id.to_owned() }
    }
}

pub struct Table<const N: usize> {
    columns: [Column; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| one_line(&cell)));
    }

    /// Formats the table. Columns are omitted and cut to keep every line within the viewport, if
    /// possible.
    pub fn render(&self, viewport: Viewport) -> String {
        let widths = self.widths(viewport.width);
        let titles = self.columns.each_ref().map(|column| column.title.to_owned());
        let head = self.line(&titles, &widths, |_, cell| viewport.colors.apply(Style::Bold, cell));
        let rows = self.rows.iter().map(|cells| {
            self.line(cells, &widths, |column, cell| viewport.colors.apply((column.style)(cell.trim_end()), cell))
        });
        std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
    }

    fn widths(&self, limit: Option<usize>) -> [usize; N] {
        let mut widths = self.columns.each_ref().map(|column| column.title.width());
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let Some(limit) = limit else { return widths };
        for (width, column) in widths.iter_mut().zip(&self.columns) {
            if matches!(column.cut, Cut::Id) {
                *width = (*width).min(SHORT_ID);
            }
        }
        let total = |widths: &[usize; N], least: Option<usize>| {
            let shown = widths.iter().zip(&self.columns).filter(|(width, _)| **width > 0);
            let parts: Vec<usize> = shown
                .map(|(width, column)| match (&column.cut, least) {
                    (Cut::Never | Cut::Id, _) | (_, None) => *width,
                    (Cut::Start | Cut::End, Some(least)) => (*width).min(least),
                })
                .collect();
            parts.iter().sum::<usize>() + GAP.len() * parts.len().saturating_sub(1)
        };
        while total(&widths, Some(READABLE)) > limit {
            let optional = self.columns.iter().enumerate().filter(|(at, column)| column.rank > 0 && widths[*at] > 0);
            match optional.max_by_key(|(_, column)| column.rank) {
                Some((at, _)) => widths[at] = 0,
                None => break,
            }
        }
        while total(&widths, None) > limit {
            let cuttable = widths.iter_mut().zip(&self.columns).filter(|(_, column)| !matches!(column.cut, Cut::Never));
            match cuttable.map(|(width, _)| width).max() {
                Some(widest) if *widest > MIN_COLUMN_WIDTH => *widest -= 1,
                _ => break,
            }
        }
        widths
    }

    fn line(&self, cells: &[String; N], widths: &[usize; N], colors: impl Fn(&Column, &str) -> String) -> String {
        let is_shown = |at: usize| widths[at] > 0;
        let last = (0..N).rev().find(|at| is_shown(*at) && !cells[*at].is_empty()).unwrap_or(0);
        let mut line = String::new();
        for (at, ((cell, width), column)) in cells.iter().zip(widths).zip(&self.columns).enumerate().take(last + 1) {
            if !is_shown(at) {
                continue;
            }
            let cell = fit(cell, *width, &column.cut);
            let padding = if at == last { 0 } else { width.saturating_sub(cell.width()) + GAP.len() };
            line.push_str(&colors(column, &cell));
            line.push_str(&" ".repeat(padding));
        }
        line
    }
}

/// Cuts a cell to a width.
fn fit(cell: &str, width: usize, cut: &Cut) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    match cut {
        Cut::Never => cell.to_owned(),
        Cut::Start => format!("…{}", end_of(cell, width.saturating_sub(1))),
        Cut::Id => end_of(cell, width),
        Cut::End => cut_end(cell, width),
    }
}

/// Returns the start of a text within this width, with an ellipsis if it is cut.
pub(crate) fn cut_end(text: &str, width: usize) -> String {
    if text.width() <= width { text.to_owned() } else { format!("{}…", fill(text.chars(), width.saturating_sub(1))) }
}

/// Returns the end of a text within this width.
pub(crate) fn end_of(text: &str, width: usize) -> String {
    fill(text.chars().rev(), width).chars().rev().collect()
}

fn fill(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = |character: &char| {
        used += character.width().unwrap_or(0);
        used <= width
    };
    characters.take_while(fits).collect()
}

/// Returns a line from outside for an output of this width: wrapped between words, with an indent
/// before all rows but the first.
pub fn fitted(text: &str, indent: &str, width: Option<usize>) -> String {
    let text = visible_text(text);
    match width {
        Some(width) if text.width() > width => {
            let rows = wrapped(&text, width.saturating_sub(indent.width()).max(MIN_COLUMN_WIDTH));
            rows.replace('\n', &format!("\n{indent}"))
        }
        _ => text,
    }
}

/// The colour of a session's state.
pub(crate) fn state_style(state: &str) -> Style {
    match state {
        "running" => Style::Green,
        "waiting" => Style::Yellow,
        _ => Style::Dim,
    }
}

/// Puts text that comes from outside on one line, with control characters and invisible characters
/// escaped.
pub fn one_line(text: &str) -> String {
    escape::line(text).into_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn table() -> Table<3> {
        let state = Column::fixed("STATE").styled(|_| Style::Green);
        let mut table = Table::new([Column::id("ID"), state, Column::keeping_start("TITLE")]);
        table.row(["0193-abcdef-0123456789ab".into(), "idle".into(), "A title\nwith \u{1b}[31mtricks".into()]);
        table.row(["7".into(), "running".into(), "日本語のとても長いタイトルです".into()]);
        table
    }

    #[test]
    fn everything_is_shown_where_there_is_room() {
        expect![[r#"
            ID                        STATE    TITLE
            0193-abcdef-0123456789ab  idle     A title\nwith \u{1b}[31mtricks
            7                         running  日本語のとても長いタイトルです"#]]
        .assert_eq(&table().render(Viewport { width: None, colors: Colors::Off }));
    }

    #[test]
    fn terminal_tables_shorten_ids_and_cut_the_widest_columns_first() {
        let narrow = table().render(Viewport { width: Some(34), colors: Colors::Off });
        expect![[r#"
            ID            STATE    TITLE
            0123456789ab  idle     A title\nw…
            7             running  日本語のと…"#]]
        .assert_eq(&narrow);
        assert!(narrow.lines().all(|line| line.width() <= 34));
    }

    #[test]
    fn long_lines_continue_below_an_indent() {
        let text = "office/large   60,000 tokens, images";
        assert_eq!(fitted(text, "    ", Some(24)), "office/large\n    60,000 tokens,\n    images");
        assert_eq!((fitted(text, "    ", None), fitted(text, "    ", Some(36))), (text.to_owned(), text.to_owned()));
    }

    #[test]
    fn optional_columns_are_left_out_of_a_narrow_table() {
        let mut table = Table::new([
            Column::id("ID"),
            Column::fixed("TURN").optional(1),
            Column::keeping_end("MODEL").optional(2),
            Column::keeping_start("TITLE"),
        ]);
        let title = "A title that is rather long";
        table.row(["1".into(), "5m".into(), "provider/a-model-with-a-name".into(), title.into()]);
        let shown = |width| table.render(Viewport { width: Some(width), colors: Colors::Off });
        assert!(shown(80).starts_with("ID  TURN  MODEL"));
        assert_eq!(shown(40), format!("ID  TURN  TITLE\n1   5m    {title}"));
        assert_eq!(shown(26), "ID  TITLE\n1   A title that is rathe…");
    }

    #[test]
    fn colours_change_nothing_else() {
        let painted = table().render(Viewport { width: Some(34), colors: Colors::On });
        let bare =
            ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[32m"].iter().fold(painted.clone(), |text, code| text.replace(code, ""));
        assert_ne!(painted, bare);
        assert_eq!(bare, table().render(Viewport { width: Some(34), colors: Colors::Off }));
    }
}
