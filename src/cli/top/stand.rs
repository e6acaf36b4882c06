//! Place of the reader in `top`: the pane, the scroll position and the filter, and the keys that move it.

use crossterm::event::KeyCode;

/// A pane of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Overview,
    Users,
    Queue,
    Nodes,
}

/// Keys of the panes, in the order of the panes.
pub(super) const PANES: [(char, Pane, &str); 4] = [
    ('1', Pane::Overview, "overview"),
    ('2', Pane::Users, "users"),
    ('3', Pane::Queue, "queue"),
    ('4', Pane::Nodes, "nodes"),
];

/// Place of the reader: pane, scroll position and filter.
#[derive(Clone, Debug, Default)]
pub(super) struct UiState {
    pub pane: Pane,
    /// Lines of the pane above the first shown line.
    pub scroll: usize,
    /// Shown lines of the pane, as of the last frame.
    pub page: usize,
    /// True if the queue shows waiting jobs only.
    pub waiting_only: bool,
}

impl UiState {
    /// Goes where `key` says.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys mean nothing")]
    pub fn take(&mut self, key: KeyCode) {
        let places = PANES.iter().map(|(_, pane, _)| *pane).collect::<Vec<_>>();
        let at = places.iter().position(|pane| *pane == self.pane).unwrap_or(0);
        let to = |pane: Pane| UiState { pane, scroll: 0, ..self.clone() };
        *self = match key {
            KeyCode::Tab | KeyCode::Right => to(places[(at + 1) % places.len()]),
            KeyCode::BackTab | KeyCode::Left => to(places[(at + places.len() - 1) % places.len()]),
            KeyCode::Down | KeyCode::Char('j') => self.scrolled(1, true),
            KeyCode::Up | KeyCode::Char('k') => self.scrolled(1, false),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scrolled(self.page, true),
            KeyCode::PageUp => self.scrolled(self.page, false),
            KeyCode::Home => UiState { scroll: 0, ..self.clone() },
            KeyCode::End => UiState { scroll: usize::MAX, ..self.clone() },
            KeyCode::Char('w') => UiState {
                pane: Pane::Queue,
                scroll: 0,
                waiting_only: !self.waiting_only,
                page: self.page,
            },
            KeyCode::Char(typed) => match PANES.iter().find(|(digit, _, _)| *digit == typed) {
                Some((_, pane, _)) => to(*pane),
                None => return,
            },
            _ => return,
        };
    }

    fn scrolled(&self, lines: usize, is_down: bool) -> UiState {
        let scroll = if is_down {
            self.scroll.saturating_add(lines)
        } else {
            self.scroll.saturating_sub(lines)
        };
        UiState { scroll, ..self.clone() }
    }
}
