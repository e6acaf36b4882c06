//! Rules about the repository itself.

mod rows;
mod tidy;
