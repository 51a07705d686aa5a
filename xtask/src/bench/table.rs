//! Tables on the terminal: names to the left, figures to the right.

/// Prints rows in columns. The first row is the heading; the first column holds names.
pub(crate) fn print(rows: &[Vec<String>]) {
    for line in lines(rows) {
        println!("{line}");
    }
}

fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (index, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if index == 0 {
                    line += &format!("{cell:<width$}");
                } else {
                    line += &format!("  {cell:>width$}");
                }
            }
            line.trim_end().to_owned()
        })
        .collect()
}

/// The cells of a row.
pub(crate) fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let rows = [
            row(&["tool", "ms"]),
            row(&["a", "12.5"]),
            row(&["long name"]),
        ];
        assert_eq!(
            lines(&rows),
            ["tool         ms", "a          12.5", "long name"]
        );
    }
}
