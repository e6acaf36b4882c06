//! The pages, over HTTP and in a browser.

mod browser;
mod browser_past;
mod calendar;
mod campaign_browser;
mod dashboard;
mod grid_browser;
#[path = "../support/mod.rs"]
mod support;
mod time_travel;
mod views;
