//! Columns and words for people.

use comfy_table::{Cell, CellAlignment, Color, Table, presets::NOTHING};

use super::text::{TextStyle, shortened};
use crate::model::{is_hidden, memory_text};

/// The blanks between two columns.
const GAP: usize = 2;

/// A column of text is not cut below this.
const NARROWEST: usize = 8;

/// A column: its heading, and on which side its values line up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    Left(&'static str),
    Right(&'static str),
}

/// `rows` under `columns`, without lines: what `awk` and eyes both read.
pub(super) fn table<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    headed(columns, rows, TextStyle::default())
}

/// Renders as [`table`] does, by the settings of `look`.
pub(super) fn headed<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = [String; N]>,
    look: TextStyle,
) -> String {
    fitted(columns, rows, look, &[])
}

/// Renders as [`headed`] does, for narrow terminals. Columns with a heading in `spare` are left
/// out, in that order, until the rest fits. If all of them are out, the longest texts are cut.
pub(super) fn fitted<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = [String; N]>,
    look: TextStyle,
    spare: &[&str],
) -> String {
    let rows: Vec<[String; N]> = rows.into_iter().map(|row| row.map(|text| plain(&text))).collect();
    let mut widths = columns.map(|column| column.heading().chars().count());
    for row in &rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = text.chars().count().max(*width);
        }
    }
    let widths = within(columns, widths, look.width, spare);
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.style_text_only();
    if look.has_colour {
        table.enforce_styling()
    } else {
        table.force_no_tty()
    };
    let shown = || columns.into_iter().zip(widths).filter(|(_, width)| 0 < *width);
    // A hidden heading is set too: columns have no shape without it.
    table.set_header(shown().map(|(column, width)| Cell::new(shortened(column.heading(), width))));
    for row in rows {
        let cells = row.into_iter().zip(columns.into_iter().zip(widths));
        let cells = cells.filter(|(_, (_, width))| 0 < *width);
        table.add_row(cells.map(|(text, (column, width))| {
            let cell = Cell::new(shortened(&text, width));
            match colour(column.heading(), &text) {
                Some(colour) if look.has_colour => cell.fg(colour),
                _ => cell,
            }
        }));
    }
    for (column, (shape, _)) in table.column_iter_mut().zip(shown()) {
        column.set_padding((0, 2));
        if let Column::Right(_) = shape {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.trim_fmt();
    if look.no_header {
        text.split_once('\n').map(|(_, rows)| rows.to_owned()).unwrap_or_default()
    } else {
        text
    }
}

/// Returns the widths of columns that fit into a terminal of `width`; 0 leaves a column out.
fn within<const N: usize>(
    columns: [Column; N],
    mut widths: [usize; N],
    width: Option<usize>,
    spare: &[&str],
) -> [usize; N] {
    let Some(width) = width else { return widths.map(|width| width.max(1)) };
    let sum = |widths: &[usize; N]| {
        widths.iter().filter(|width| 0 < **width).map(|width| width + GAP).sum::<usize>()
    };
    // The last column needs no gap.
    let limit = width + GAP;
    for heading in spare {
        if sum(&widths) <= limit {
            break;
        }
        for (width, column) in widths.iter_mut().zip(columns) {
            if column.heading() == *heading {
                *width = 0;
            }
        }
    }
    // Figures are never cut: a part of a number is another number.
    while limit < sum(&widths) {
        let texts = widths.iter_mut().zip(columns);
        let texts = texts.filter(|(_, column)| matches!(column, Column::Left(_)));
        match texts.map(|(width, _)| width).max() {
            Some(widest) if NARROWEST < *widest => *widest -= 1,
            _ => break,
        }
    }
    widths
}

/// Returns the colour of a text under a heading. States and reasons have a colour, figures do not.
fn colour(heading: &str, text: &str) -> Option<Color> {
    if !matches!(heading, "STATE" | "DOING" | "REASON" | "CODE" | "POSSIBLE") {
        return None;
    }
    let first = text.split([',', ' ', ':']).next().unwrap_or_default();
    match first {
        "up" | "running" | "held" | "reserved" | "done" | "yes" => Some(Color::Green),
        "dead" | "refused" | "failed" | "impossible" | "no" => Some(Color::Red),
        "" | "completing" | "cancelled" => None,
        _ => Some(Color::Yellow),
    }
}

impl Column {
    fn heading(self) -> &'static str {
        let (Column::Left(heading) | Column::Right(heading)) = self;
        heading
    }
}

/// `text` without anything that a terminal would obey. Names and reasons come from strangers.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// [`plain`], line by line.
pub(super) fn plain_lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// Memory as people write it: "15 GB".
pub(super) fn memory(mebibytes: u64) -> String {
    memory_text(mebibytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] =
        [Column::Left("NODE"), Column::Left("POOL"), Column::Right("FREE"), Column::Left("STATE")];

    fn rows() -> [[String; 4]; 2] {
        [["n[1-20]", "main", "12", "up"], ["a-rather-long-name", "main", "0", "dead"]]
            .map(|row| row.map(str::to_owned))
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_then_shorter_texts() {
        for (width, expected) in [
            (37, "NODE                POOL  FREE  STATE"),
            (36, "NODE                FREE  STATE"),
            (31, "NODE                FREE  STATE"),
            (22, "NODE       FREE  STATE"),
            (3, "NODE      FREE  STATE"),
        ] {
            let look = TextStyle { width: Some(width), ..TextStyle::default() };
            let text = fitted(COLUMNS, rows(), look, &["POOL"]);
            assert_eq!(text.lines().next(), Some(expected), "{width}: {text}");
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(width < 22 || widest <= Some(width), "{text}");
        }
    }

    #[test]
    fn states_have_colours_where_a_terminal_shows_them() {
        let look = TextStyle { has_colour: true, ..TextStyle::default() };
        let text = headed(COLUMNS, rows(), look);
        assert!(text.contains("\u{1b}[38;5;9mdead") || text.contains("\u{1b}[31mdead"), "{text:?}");
        assert!(!text.lines().next().unwrap().contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let rows = [["\x1b[2Jalice\n".to_owned()]];
        assert_eq!(table([Column::Left("USER")], rows), "USER\n\u{fffd}[2Jalice\u{fffd}");
    }
}
