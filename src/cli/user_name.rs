//! Name of the calling user.

/// The name of the user that runs this command.
pub fn own_name() -> Option<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current());
    user.ok().flatten().map(|user| user.name)
}
