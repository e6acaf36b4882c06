//! Who has work. Users are known by number in the books, so that a cycle compares no names.

use std::collections::BTreeMap;

use crate::model::{Name, UserIx};

/// Everybody with work, refused work included.
#[derive(Clone, Debug, Default)]
pub(super) struct Users {
    by_name: BTreeMap<Name, UserBook>,
    /// Numbers below the next one that nobody has any more.
    free: Vec<UserNumber>,
}

/// A user's number. Kept for as long as the user has work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UserNumber(usize);

#[derive(Clone, Debug)]
struct UserBook {
    number: UserNumber,
    /// How many requests for work the user has.
    jobs: u64,
}

/// Where users are in a snapshot.
pub(super) struct UserPlaces {
    /// The names of those who are in it, in order.
    pub names: Vec<Name>,
    by_number: Vec<UserIx>,
}

impl Users {
    /// One more request of `user`. Returns the user's number.
    pub(super) fn enter(&mut self, user: &Name) -> UserNumber {
        let next = UserNumber(self.by_name.len());
        if let Some(known) = self.by_name.get_mut(user) {
            known.jobs += 1;
            return known.number;
        }
        let number = self.free.pop().unwrap_or(next);
        self.by_name.insert(user.clone(), UserBook { number, jobs: 1 });
        number
    }

    /// One request of `user` less.
    pub(super) fn leave(&mut self, user: &str) {
        let known = self.by_name.get_mut(user).expect("whose work ends had work");
        known.jobs -= 1;
        if known.jobs == 0 {
            self.free.push(known.number);
            self.by_name.remove(user);
        }
    }

    /// The places of those who have one, by name.
    pub(super) fn places(&self, have_one: impl IntoIterator<Item = UserNumber>) -> UserPlaces {
        let numbers = self.by_name.len() + self.free.len();
        let mut is_there = vec![false; numbers];
        for UserNumber(number) in have_one {
            is_there[number] = true;
        }
        let mut places = UserPlaces { names: Vec::new(), by_number: vec![UserIx(0); numbers] };
        for (name, user) in self.by_name.iter().filter(|(_, user)| is_there[user.number.0]) {
            places.by_number[user.number.0] = UserIx(places.names.len());
            places.names.push(name.clone());
        }
        places
    }
}

impl UserPlaces {
    /// Where a user is who has a place.
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
        let places = users.places([dan, bob, dan]);
        assert_eq!(places.names, ["bob", "dan"]);
        assert_eq!([places.of(bob), places.of(dan)], [UserIx(0), UserIx(1)]);
        assert_eq!(users.places([ann]).names, ["ann"]);
    }

    #[test]
    fn whoever_has_no_work_left_is_forgotten_and_the_number_is_used_again() {
        let mut users = Users::default();
        let [dan, ann] = ["dan", "ann"].map(|name| users.enter(&name.into()));
        users.enter(&"dan".into());
        users.leave("dan");
        assert_eq!(users.enter(&"eve".into()), UserNumber(2), "dan still has work");
        users.leave("dan");
        let zoe = users.enter(&"zoe".into());
        assert_eq!(zoe, dan);
        assert_eq!(users.places([zoe, ann]).names, ["ann", "zoe"]);
    }
}
