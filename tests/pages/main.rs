//! The pages, over HTTP and in a browser.

mod browser;
mod campaign_browser;
mod dashboard;
#[path = "../support/mod.rs"]
mod support;
