//! Rules about the repository itself.

mod circles;
mod features;
mod rows;
mod tidy;
mod words;
