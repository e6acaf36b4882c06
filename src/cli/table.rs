//! Columns and words for people.

use comfy_table::{Cell, CellAlignment, Table, presets::NOTHING};

use crate::model::Mebibytes;

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
    let mut table = Table::new();
    table.load_style(NOTHING);
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
    table.trim_fmt()
}

/// `text` without anything that a terminal would obey. Names and reasons come from strangers.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Memory as people write it: "15 GB".
pub(super) fn memory(mebibytes: u64) -> String {
    Mebibytes(mebibytes).to_string()
}

/// A span of time in its two largest units: "2h 5m".
pub(super) fn span(milliseconds: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let mut rest = milliseconds;
    let mut words = Vec::new();
    for (length, unit) in UNITS {
        let count = rest.div_euclid(length);
        rest = rest.rem_euclid(length);
        // Two neighbours at most: 3d 5s says nothing that 3d does not.
        if 0 < count {
            words.push(format!("{count}{unit}"));
        } else if !words.is_empty() {
            break;
        }
        if words.len() == 2 {
            break;
        }
    }
    if words.is_empty() { "0s".to_owned() } else { words.join(" ") }
}

/// "1 share", "2 shares".
pub(super) fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_show_two_units_at_most() {
        let cases = [
            (0, "0s"),
            (999, "0s"),
            (1_000, "1s"),
            (60_000, "1m"),
            (61_000, "1m 1s"),
            (3_605_000, "1h"),
            (7_500_000, "2h 5m"),
            (90_061_000, "1d 1h"),
        ];
        for (milliseconds, text) in cases {
            assert_eq!(span(milliseconds), text, "{milliseconds}");
        }
    }

    #[test]
    fn nobody_sends_orders_to_the_terminal() {
        let rows = [["\x1b[2Jalice\n".to_owned()]];
        assert_eq!(table([Column::Left("USER")], rows), "USER\n\u{fffd}[2Jalice\u{fffd}");
    }
}
