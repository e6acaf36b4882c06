//! Lists of immutable views whose elements the next list shares. An unchanged element is neither
//! built nor kept twice.

use std::cmp::Ordering;
use std::ops::Index;
use std::sync::Arc;

/// A list of immutable views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedList<T>(Vec<Arc<T>>);

impl<T> Default for SharedList<T> {
    fn default() -> SharedList<T> {
        SharedList(Vec::new())
    }
}

impl<T> SharedList<T> {
    /// All of them, in order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self.0.iter())
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the list has no element.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the element that `order` calls equal; the list must be sorted by `order`.
    ///
    /// # Errors
    ///
    /// The place where it would be, if it is not there.
    pub fn binary_search_by(&self, mut order: impl FnMut(&T) -> Ordering) -> Result<usize, usize> {
        self.0.binary_search_by(|picture| order(picture))
    }

    /// True if both lists are equal element by element, by `is_same`. Shared elements are equal
    /// without a call.
    pub fn eq_by(&self, other: &SharedList<T>, is_same: impl Fn(&T, &T) -> bool) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.len() == other.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(one, other) || is_same(one, other))
    }

    /// Returns the elements that are not shared with `before`, each with its predecessor of the
    /// same key, if any. Both lists must be sorted by `key`.
    pub fn changed_since<'a, Key: Ord>(
        &'a self,
        before: &'a SharedList<T>,
        key: impl Fn(&T) -> Key,
    ) -> impl Iterator<Item = (&'a T, Option<&'a T>)> {
        let (mut before, mut now) = (before.0.iter().peekable(), self.0.iter());
        std::iter::from_fn(move || {
            loop {
                let new = now.next()?;
                if before.next_if(|old| Arc::ptr_eq(old, new)).is_some() {
                    continue;
                }
                let at = key(new);
                while before.next_if(|old| key(old) < at).is_some() {}
                let old = before.next_if(|old| key(old) == at);
                if old.is_none_or(|old| !Arc::ptr_eq(old, new)) {
                    return Some((new.as_ref(), old.map(Arc::as_ref)));
                }
            }
        })
    }

    /// Shared elements, for reuse in the next list.
    pub(super) fn shared(&self) -> std::slice::Iter<'_, Arc<T>> {
        self.0.iter()
    }
}

impl<T> FromIterator<Arc<T>> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(pictures: I) -> SharedList<T> {
        SharedList(pictures.into_iter().collect())
    }
}

impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, place: usize) -> &T {
        &self.0[place]
    }
}

impl<'a, T> IntoIterator for &'a SharedList<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// Iterator over the elements, in order.
#[derive(Debug)]
pub struct Iter<'a, T>(std::slice::Iter<'a, Arc<T>>);

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.0.next().map(Arc::as_ref)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(Arc::as_ref)
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pictures(of: &[(u32, char)]) -> SharedList<(u32, char)> {
        of.iter().copied().map(Arc::new).collect()
    }

    /// Before, now, and the elements built since: 7 is equal in all cases, shared or built again.
    #[test]
    fn what_was_drawn_comes_with_what_was_there_before() {
        let before = pictures(&[(1, 'a'), (3, 'b'), (7, 'c'), (8, 'd')]);
        let shared = Arc::clone(&before.0[2]);
        let others = pictures(&[(2, 'x'), (3, 'y'), (9, 'z')]).0;
        let now: SharedList<(u32, char)> =
            [&others[..2], &[shared], &others[2..]].concat().into_iter().collect();
        let drawn: Vec<_> = now.changed_since(&before, |(key, _)| *key).collect();
        assert_eq!(drawn, [(&(2, 'x'), None), (&(3, 'y'), Some(&(3, 'b'))), (&(9, 'z'), None)]);
        let redrawn = pictures(&[(7, 'c')]);
        assert_eq!(redrawn.changed_since(&before, |(key, _)| *key).count(), 1);
    }

    #[test]
    fn lists_are_alike_if_what_they_do_not_share_is() {
        let one = pictures(&[(1, 'a'), (2, 'b')]);
        let two: SharedList<_> = [Arc::clone(&one.0[0]), Arc::new((2, 'c'))].into_iter().collect();
        assert!(one.eq_by(&two, |one, two| one.0 == two.0));
        assert!(!one.eq_by(&two, |_, _| false));
        assert!(one.eq_by(&one.clone(), |_, _| false), "shared elements are not compared");
        assert!(!one.eq_by(&pictures(&[(1, 'a')]), |_, _| true), "one is missing");
    }
}
