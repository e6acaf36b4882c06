//! Columns and words for people.

use comfy_table::{Cell, CellAlignment, Table, presets::NOTHING};

use crate::model::{Mebibytes, is_hidden};

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
    headed(columns, rows, true)
}

/// As [`table`], with headings if `has_header`.
pub(super) fn headed<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = [String; N]>,
    has_header: bool,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    // Set even if it is not shown: columns have no shape without one.
    table.set_header(columns.map(|column| match column {
        Column::Left(heading) | Column::Right(heading) => Cell::new(heading),
    }));
    for row in rows {
        table.add_row(row.map(|text| Cell::new(plain(&text))));
    }
    for (column, shape) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        if let Column::Right(_) = shape {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.trim_fmt();
    if has_header {
        text
    } else {
        text.split_once('\n').map(|(_, rows)| rows.to_owned()).unwrap_or_default()
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
    Mebibytes(mebibytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sends_orders_to_the_terminal() {
        let rows = [["\x1b[2Jalice\n".to_owned()]];
        assert_eq!(table([Column::Left("USER")], rows), "USER\n\u{fffd}[2Jalice\u{fffd}");
    }
}
