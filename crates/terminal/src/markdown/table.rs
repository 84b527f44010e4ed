//! Lays out a Markdown table in columns that fit the width. If there are too many columns for the
//! width, each row becomes a list of its cells.

use pulldown_cmark::Alignment;

use crate::style::{Colors, Style};
use crate::text_flow::{FlowLine, TextFlow};

/// The smallest width to which a column is narrowed.
const MIN_COLUMN_WIDTH: usize = 6;

/// The number of columns on the screen between two columns of the table.
const GAP: usize = 3;

pub(super) struct MarkdownTable<'a> {
    alignments: &'a [Alignment],
    rows: Vec<Vec<TextFlow>>,
}

impl<'a> MarkdownTable<'a> {
    pub(super) fn new(alignments: &'a [Alignment]) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    /// Whether the current row is the first one.
    pub(super) fn is_head(&self) -> bool {
        self.rows.len() == 1
    }

    pub(super) fn cell(&mut self, cell: TextFlow) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    pub(super) fn render(&self, room: usize, colors: Colors) -> Vec<String> {
        let Some(widths) = self.widths(room) else { return self.list(room, colors) };
        let mut lines = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            lines.extend(self.row(row, &widths, colors));
            if at == 0 {
                let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("─┼─");
                lines.push(colors.apply(Style::Dim, &rule));
            }
        }
        lines
    }

    /// Returns the widths of the columns: the widest are narrowed until all fit. Returns None if
    /// they cannot fit.
    fn widths(&self, room: usize) -> Option<Vec<usize>> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let natural = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(TextFlow::width).max();
        let mut widths: Vec<usize> = (0..columns).map(|column| natural(column).unwrap_or(0).max(1)).collect();
        let room = room.checked_sub(GAP * columns.saturating_sub(1))?;
        while widths.iter().sum::<usize>() > room {
            let widest = widths.iter_mut().max().filter(|width| **width > MIN_COLUMN_WIDTH)?;
            *widest -= 1;
        }
        Some(widths)
    }

    fn row(&self, cells: &[TextFlow], widths: &[usize], colors: Colors) -> Vec<String> {
        let cells: Vec<Vec<FlowLine>> =
            cells.iter().zip(widths).map(|(cell, width)| cell.lines(*width, colors)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let bar = colors.apply(Style::Dim, " │ ");
        let line = |at: usize| {
            let parts = widths.iter().enumerate().map(|(column, width)| {
                let alignment = self.alignments.get(column).copied().unwrap_or(Alignment::None);
                pad(cells.get(column).and_then(|lines| lines.get(at)), *width, alignment)
            });
            parts.collect::<Vec<_>>().join(&bar).trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }

    /// Formats each row as lines of "column: cell".
    fn list(&self, room: usize, colors: Colors) -> Vec<String> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                lines.push(String::new());
            }
            for (column, cell) in row.iter().enumerate() {
                let mut flow = TextFlow::default();
                if let Some(title) = head.get(column) {
                    flow.append(title.clone());
                    flow.push(": ", crate::text_flow::TextStyle::default());
                }
                flow.append(cell.clone());
                lines.extend(flow.lines(room, colors).into_iter().map(|line| line.text));
            }
        }
        lines
    }
}

fn pad(line: Option<&FlowLine>, width: usize, alignment: Alignment) -> String {
    let (text, used) = line.map_or(("", 0), |line| (line.text.as_str(), line.width));
    let free = width.saturating_sub(used);
    let before = match alignment {
        Alignment::Right => free,
        Alignment::Center => free / 2,
        Alignment::Left | Alignment::None => 0,
    };
    format!("{}{text}{}", " ".repeat(before), " ".repeat(free - before))
}
