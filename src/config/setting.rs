//! A setting of the file: its value, and where it was written.

use super::problem::ValuePlace;

/// A value, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located<T> {
    pub value: T,
    pub place: ValuePlace,
}

/// Result of reading a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Setting<T> {
    /// The setting is absent.
    Absent,
    /// The value is wrong, which has been reported.
    Refused,
    /// The setting is present and right.
    Given(Located<T>),
}

impl<T> Setting<T> {
    pub(super) fn given(&self) -> Option<&Located<T>> {
        match self {
            Setting::Given(located) => Some(located),
            Setting::Absent | Setting::Refused => None,
        }
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Setting::Absent)
    }

    pub(super) fn into_located(self) -> Option<Located<T>> {
        match self {
            Setting::Given(located) => Some(located),
            Setting::Absent | Setting::Refused => None,
        }
    }

    pub(super) fn into_value(self) -> Option<T> {
        self.into_located().map(|located| located.value)
    }

    pub(super) fn or(self, default: T) -> T {
        self.into_value().unwrap_or(default)
    }

    pub(super) fn place(&self) -> Option<&ValuePlace> {
        self.given().map(|located| &located.place)
    }
}

impl<T: Clone> Setting<T> {
    /// Returns this setting, or `below` if this setting is absent.
    pub(super) fn over(&self, below: &Setting<T>) -> Setting<T> {
        if self.is_absent() { below.clone() } else { self.clone() }
    }
}
