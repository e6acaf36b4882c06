//! Users that may run work on this node: names as the node knows them, and the node's own rules.

use std::ffi::CString;

use nix::unistd::{Gid, Uid, User, getgrouplist};

use crate::slot::UserIdentity;

/// The node's own rules for users. No order of an orchestrator overrides them.
#[derive(Clone, Debug)]
pub struct UserRules {
    /// Users below this number run no work, except for the agent's own user.
    pub min_uid: u32,
    /// True if user 0 may run work.
    pub allow_root: bool,
    /// The only users that may run work; `None`: all above the limit.
    pub users: Option<Vec<String>>,
}

/// A user as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAccount {
    /// The name.
    pub name: String,
    /// The numbers of the user and its groups.
    pub identity: UserIdentity,
    /// The home directory.
    pub home: String,
    /// The shell.
    pub shell: String,
}

/// Users of this node, and the rules for them.
#[derive(Clone, Debug)]
pub struct LocalUsers {
    own: LocalAccount,
    rules: UserRules,
}

impl LocalUsers {
    /// The users of this node, under `rules`.
    ///
    /// # Errors
    ///
    /// If the agent's own user has no account.
    pub fn new(rules: UserRules) -> Result<LocalUsers, String> {
        let uid = Uid::current();
        let user = User::from_uid(uid).map_err(|errno| unreadable(&uid.to_string(), errno))?;
        let user = user.ok_or_else(|| {
            format!(
                "user {uid} has no account on this node; start the agent as a user with an account"
            )
        })?;
        Ok(LocalUsers { own: account(user)?, rules })
    }

    /// True if the agent can start work of other users.
    pub fn is_root(&self) -> bool {
        self.own.identity.uid == 0
    }

    /// The only user whose work can run; `None`: work of several users can run.
    pub fn only_user(&self) -> Option<String> {
        (!self.is_root()).then(|| self.own.name.clone())
    }

    /// The number of the agent's own user.
    pub fn own_uid(&self) -> u32 {
        self.own.identity.uid
    }

    /// The account of the user `name`, who has the number `uid` at the head.
    ///
    /// # Errors
    ///
    /// If the node has no such user, or the user may not run work on it.
    pub fn account_for(&self, name: &str, uid: Option<u32>) -> Result<LocalAccount, String> {
        let LocalAccount { name: own, .. } = &self.own;
        if !self.is_root() && name != own {
            return Err(format!(
                "this node runs tasks of {own} only: its agent is not root; submit as {own}, or start the agent as root"
            ));
        }
        let found = User::from_name(name).map_err(|errno| unreadable(name, errno))?;
        let user =
            found.ok_or_else(|| format!("this node has no user {name}; create the account"))?;
        let account = account(user)?;
        let UserIdentity { uid: here, .. } = account.identity;
        if let Some(there) = uid.filter(|there| *there != here) {
            return Err(format!(
                "{name} has number {here} on this node and {there} at the head; give both the same"
            ));
        }
        if let Some(users) = &self.rules.users
            && !users.iter().any(|user| user == name)
        {
            return Err(format!("{name} is not among the users of this node; see --users"));
        }
        if here == 0 && !self.rules.allow_root {
            return Err("user 0 may not run tasks on this node; see --allow-root".to_owned());
        }
        let is_low = here != 0 && here < self.rules.min_uid && here != self.own.identity.uid;
        if is_low {
            let least = self.rules.min_uid;
            return Err(format!(
                "{name} has number {here}, and users below {least} may not run tasks here"
            ));
        }
        Ok(account)
    }
}

fn unreadable(name: &str, errno: nix::errno::Errno) -> String {
    format!("cannot look up user {name} on this node: {errno}")
}

fn account(user: User) -> Result<LocalAccount, String> {
    let name = CString::new(user.name.as_str()).map_err(|error| error.to_string())?;
    let groups = getgrouplist(&name, user.gid).map_err(|errno| unreadable(&user.name, errno))?;
    let identity = UserIdentity {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(Gid::as_raw).collect(),
    };
    Ok(LocalAccount {
        name: user.name,
        identity,
        home: user.dir.to_string_lossy().into_owned(),
        shell: user.shell.to_string_lossy().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(rules: UserRules) -> LocalUsers {
        LocalUsers::new(rules).unwrap()
    }

    fn strict() -> UserRules {
        UserRules { min_uid: 1000, allow_root: false, users: None }
    }

    #[test]
    fn only_permitted_users_run_work() {
        let own = users(strict());
        if !own.is_root() {
            assert!(own.account_for("root", None).unwrap_err().contains("not root"));
            assert_eq!(own.only_user(), Some(own.own.name.clone()));
            return;
        }
        for (name, uid, says) in [
            ("root", None, "--allow-root"),
            ("root", Some(5), "at the head"),
            ("daemon", None, "below 1000"),
            ("no-such-user", None, "no user"),
            ("", None, "no user"),
            ("a\0b", None, "no user"),
        ] {
            let problem = own.account_for(name, uid).unwrap_err();
            assert!(problem.contains(says), "{name:?}: {problem}");
        }
        let rules = UserRules { allow_root: true, ..strict() };
        assert_eq!(users(rules).account_for("root", Some(0)).unwrap().identity.uid, 0);
        let rules =
            UserRules { min_uid: 1, allow_root: true, users: Some(vec!["root".to_owned()]) };
        assert!(users(rules).account_for("daemon", None).unwrap_err().contains("--users"));
        let nobody =
            users(UserRules { min_uid: 1, ..strict() }).account_for("nobody", None).unwrap();
        assert!(nobody.identity.groups.contains(&nobody.identity.gid));
    }
}
