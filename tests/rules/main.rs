//! Rules about the repository itself.

mod circles;
mod rows;
mod tidy;
mod words;
