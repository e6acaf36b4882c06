//! Shared parts of all routes: bodies and their limits, errors, access, log-in, compression.

pub mod authorize;
pub mod body_rate;
pub mod compression;
pub mod cookies;
pub mod costly;
pub mod error;
pub mod extract;
pub mod json;
pub mod login;
pub mod openapi;
pub mod origin;
pub mod refuse;
pub mod remedies;
pub mod session_cookie;
pub mod theme;
pub mod turns;
