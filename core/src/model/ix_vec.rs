//! Vectors that only places of a single kind index, so that the compiler refuses any other place.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A place in a list of entities.
pub trait Ix: Copy {
    /// Builds the place from its number.
    fn at(number: usize) -> Self;

    /// Returns the number of the place, from 0.
    fn number(self) -> usize;
}

/// A vector of `T`, indexed by places of type `I`.
#[derive(Clone, PartialEq, Eq)]
pub struct IxVec<I, T> {
    items: Vec<T>,
    ix: PhantomData<fn(I) -> I>,
}

impl<I: Ix, T> IxVec<I, T> {
    /// Builds a vector of `len` clones of `item`.
    pub fn filled(item: T, len: usize) -> IxVec<I, T>
    where
        T: Clone,
    {
        vec![item; len].into()
    }

    /// Builds an empty vector with capacity for `items` items.
    pub fn with_capacity(items: usize) -> IxVec<I, T> {
        Vec::with_capacity(items).into()
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// Removes the items for which `is_kept` is false; later items move up.
    pub fn retain(&mut self, is_kept: impl FnMut(&T) -> bool) {
        self.items.retain(is_kept);
    }

    /// Changes the length to `len`; further items are made by `item`.
    pub fn resize_with(&mut self, len: usize, item: impl FnMut() -> T) {
        self.items.resize_with(len, item);
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if the vector has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the item at `ix`, if the vector is so long.
    pub fn get(&self, ix: I) -> Option<&T> {
        self.items.get(ix.number())
    }

    /// Returns the items in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// Returns the items in order, mutable.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// Returns the places in order.
    pub fn places(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::at)
    }

    /// Returns each item with its place, in order.
    pub fn with_ix(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(number, item)| (I::at(number), item))
    }

    /// Returns the items as a slice.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }
}

impl<I: Ix, T> Index<I> for IxVec<I, T> {
    type Output = T;

    fn index(&self, ix: I) -> &T {
        &self.items[ix.number()]
    }
}

impl<I: Ix, T> IndexMut<I> for IxVec<I, T> {
    fn index_mut(&mut self, ix: I) -> &mut T {
        &mut self.items[ix.number()]
    }
}

impl<I, T> From<Vec<T>> for IxVec<I, T> {
    fn from(items: Vec<T>) -> IxVec<I, T> {
        IxVec { items, ix: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IxVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> IxVec<I, T> {
        Vec::from_iter(items).into()
    }
}

impl<I, T> Extend<T> for IxVec<I, T> {
    fn extend<A: IntoIterator<Item = T>>(&mut self, items: A) {
        self.items.extend(items);
    }
}

impl<I, T> IntoIterator for IxVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'v, I, T> IntoIterator for &'v IxVec<I, T> {
    type Item = &'v T;
    type IntoIter = std::slice::Iter<'v, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'v, I, T> IntoIterator for &'v mut IxVec<I, T> {
    type Item = &'v mut T;
    type IntoIter = std::slice::IterMut<'v, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

impl<I, T> Default for IxVec<I, T> {
    fn default() -> IxVec<I, T> {
        Vec::new().into()
    }
}

impl<I, T: fmt::Debug> fmt::Debug for IxVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(f)
    }
}
