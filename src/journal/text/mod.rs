//! Entries and books as they are written: types of their own, which say in one place what is on
//! record under which name.
//!
//! What is written is read by later versions. So a field is added only with a default, none is
//! renamed or taken away, and a form that cannot be read as before gets another number
//! (`VERSION` in `seal.rs`). The snapshots beside this file show all of it.

mod books;
mod line;
mod topology;
mod work;

pub use books::Books;
pub use line::Line;
