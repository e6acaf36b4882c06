//! Windows, as they are written.

use serde::{Deserialize, Serialize};

use super::shape::is_default;
use crate::model::{self, Millis, Name};

/// A span of time in which nodes are kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowText {
    name: Name,
    kind: WindowKindText,
    nodes: Vec<Name>,
    from: Millis,
    to: Millis,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    users: Vec<Name>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    classes: Vec<Name>,
    #[serde(default, skip_serializing_if = "is_default")]
    reason: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WindowKindText {
    Reservation,
    Maintenance,
}

impl From<&model::Window> for WindowText {
    fn from(window: &model::Window) -> WindowText {
        let model::Window { name, kind, nodes, from, to, users, classes, reason } = window;
        WindowText {
            name: name.clone(),
            kind: match kind {
                model::WindowKind::Reservation => WindowKindText::Reservation,
                model::WindowKind::Maintenance => WindowKindText::Maintenance,
            },
            nodes: nodes.clone(),
            from: *from,
            to: *to,
            users: users.clone(),
            classes: classes.clone(),
            reason: reason.clone(),
        }
    }
}

impl From<WindowText> for model::Window {
    fn from(text: WindowText) -> model::Window {
        let WindowText { name, kind, nodes, from, to, users, classes, reason } = text;
        let kind = match kind {
            WindowKindText::Reservation => model::WindowKind::Reservation,
            WindowKindText::Maintenance => model::WindowKind::Maintenance,
        };
        model::Window { name, kind, nodes, from, to, users, classes, reason }
    }
}
