//! Users with jobs. Each user has a number, so that a cycle compares no names.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{IxVec, Name, UserIx};

/// All users with jobs, refused jobs included.
#[derive(Clone, Debug, Default)]
pub(super) struct Users {
    by_name: BTreeMap<Name, UserRecord>,
    /// Free numbers below the next new number.
    free: Vec<UserNumber>,
    /// Rows of the users, until a user comes or goes.
    places: OnceCell<UserPlaces>,
}

/// A user's number. Kept for as long as the user has work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UserNumber(usize);

#[derive(Clone, Debug)]
struct UserRecord {
    number: UserNumber,
    /// Number of the user's jobs.
    jobs: u64,
}

/// Rows of the users in a snapshot.
#[derive(Clone, Debug)]
pub(super) struct UserPlaces {
    /// Their names, in order.
    pub names: Arc<IxVec<UserIx, Name>>,
    by_number: Vec<UserIx>,
}

impl Users {
    /// Counts a new job of `user`. Returns the user's number.
    pub(super) fn enter(&mut self, user: &Name) -> UserNumber {
        let next = UserNumber(self.by_name.len());
        if let Some(known) = self.by_name.get_mut(user) {
            known.jobs += 1;
            return known.number;
        }
        let number = self.free.pop().unwrap_or(next);
        self.by_name.insert(user.clone(), UserRecord { number, jobs: 1 });
        self.places.take();
        number
    }

    /// Counts the end of a job of `user`.
    pub(super) fn leave(&mut self, user: &str) {
        let known = self.by_name.get_mut(user).expect("whose work ends had work");
        known.jobs -= 1;
        if known.jobs == 0 {
            self.free.push(known.number);
            self.by_name.remove(user);
            self.places.take();
        }
    }

    /// Their places, by name.
    pub(super) fn places(&self) -> &UserPlaces {
        self.places.get_or_init(|| {
            let mut by_number = vec![UserIx(0); self.by_name.len() + self.free.len()];
            for (place, user) in self.by_name.values().enumerate() {
                by_number[user.number.0] = UserIx(place);
            }
            UserPlaces { names: Arc::new(self.by_name.keys().cloned().collect()), by_number }
        })
    }
}

impl UserPlaces {
    /// Row of a user, who must have a job.
    pub(super) fn of(&self, user: UserNumber) -> UserIx {
        self.by_number[user.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_placed_by_name_however_they_came() {
        let mut users = Users::default();
        let [dan, ann, bob] = ["dan", "ann", "bob"].map(|name| users.enter(&name.into()));
        assert_eq!(users.enter(&"dan".into()), dan);
        let places = users.places();
        assert_eq!(places.names.as_slice(), ["ann", "bob", "dan"]);
        assert_eq!([ann, bob, dan].map(|user| places.of(user).0), [0, 1, 2]);
        users.leave("bob");
        let places = users.places();
        assert_eq!(places.names.as_slice(), ["ann", "dan"]);
        assert_eq!([ann, dan].map(|user| places.of(user).0), [0, 1]);
    }

    #[test]
    fn a_user_without_jobs_frees_its_number() {
        let mut users = Users::default();
        let [dan, ann] = ["dan", "ann"].map(|name| users.enter(&name.into()));
        users.enter(&"dan".into());
        users.leave("dan");
        assert_eq!(users.enter(&"eve".into()), UserNumber(2), "dan still has work");
        users.leave("dan");
        let zoe = users.enter(&"zoe".into());
        assert_eq!(zoe, dan);
        assert_eq!(users.places().names.as_slice(), ["ann", "eve", "zoe"]);
        assert_eq!([ann, zoe].map(|user| users.places().of(user).0), [0, 2]);
    }
}
