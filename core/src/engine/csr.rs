//! Many short lists in a single allocation (compressed sparse rows), for fast sequential access.

/// Lists of `T`, by number.
#[derive(Clone, Debug)]
pub(super) struct Csr<T> {
    items: Vec<T>,
    /// End of each list in `items`.
    ends: Vec<usize>,
}

impl<T> Csr<T> {
    /// Builds an empty list of lists, with capacity for `rows` lists with `items` items in all.
    pub(super) fn with_capacity(rows: usize, items: usize) -> Csr<T> {
        Csr { items: Vec::with_capacity(items), ends: Vec::with_capacity(rows) }
    }

    /// Number of lists.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Appends a list.
    pub(super) fn push(&mut self, row: impl IntoIterator<Item = T>) {
        self.items.extend(row);
        self.ends.push(self.items.len());
    }

    /// List `number`.
    pub(super) fn row(&self, number: usize) -> &[T] {
        &self.items[self.begin(number)..self.ends[number]]
    }

    /// List `number`, mutable.
    pub(super) fn row_mut(&mut self, number: usize) -> &mut [T] {
        let begin = self.begin(number);
        &mut self.items[begin..self.ends[number]]
    }

    /// All lists in turn.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[T]> {
        (0..self.len()).map(|number| self.row(number))
    }

    /// The place among all items of the first of list `number`.
    pub(super) fn begin(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Items of all lists, list by list.
    pub(super) fn items(&self) -> &[T] {
        &self.items
    }
}

impl Csr<usize> {
    /// Transposes `rows`: for each of `numbers` numbers, the lists that contain it, ascending.
    pub(super) fn transposed<T>(
        rows: &Csr<T>,
        numbers: usize,
        number: impl Fn(&T) -> usize,
    ) -> Csr<usize> {
        // Position of each list's next item; at the end of the function, the end of each list.
        let mut ends = vec![0; numbers + 1];
        for item in &rows.items {
            ends[number(item) + 1] += 1;
        }
        for place in 1..ends.len() {
            ends[place] += ends[place - 1];
        }
        let mut items = vec![0; rows.items.len()];
        for (place, row) in rows.iter().enumerate() {
            for item in row {
                let next = &mut ends[number(item)];
                items[*next] = place;
                *next += 1;
            }
        }
        ends.truncate(numbers);
        Csr { items, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lists: &[&[usize]]) -> Csr<usize> {
        let mut rows = Csr::with_capacity(0, 0);
        for list in lists {
            rows.push(list.iter().copied());
        }
        rows
    }

    #[test]
    fn lists_are_kept_apart_though_they_lie_together() {
        let mut rows = rows(&[&[], &[3, 1], &[], &[2]]);
        assert_eq!(rows.iter().collect::<Vec<_>>(), [&[][..], &[3, 1], &[], &[2]]);
        assert_eq!((rows.len(), rows.begin(3), rows.items()), (4, 2, &[3, 1, 2][..]));
        rows.row_mut(3)[0] = 5;
        assert_eq!((rows.row(3), rows.row(1)), (&[5][..], &[3, 1][..]));
    }

    #[test]
    fn turned_they_say_on_which_lists_each_number_is() {
        let transposed =
            Csr::transposed(&rows(&[&[0, 3], &[], &[3, 1], &[3]]), 5, |number| *number);
        assert_eq!(transposed.iter().collect::<Vec<_>>(), [&[0][..], &[2], &[], &[0, 2, 3], &[]]);
    }
}
