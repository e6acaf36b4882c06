//! Windows of nodes: which lists of windows there are, and which work may use nodes when.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::calendar::length_of;
use super::timeline::NEVER;
use crate::engine::draft::Draft;
use crate::engine::snapshot::Snapshot;
use crate::model::{JobIx, Millis, Name, Window};

/// Windows of nodes. Nodes with the same windows share a list.
#[derive(Debug, Default)]
pub(super) struct WindowLists {
    /// Distinct lists, each by start. Lists that begin sooner come first, and no windows last.
    lists: Vec<Vec<Arc<Window>>>,
    /// Place of the list of each node; empty if no node has a window.
    of: Vec<usize>,
}

/// Span of time in which a request would run, and its rights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay<'r> {
    /// Start.
    pub from: Millis,
    /// End; [`NEVER`] if it is not known.
    pub to: Millis,
    /// Rights on reserved nodes.
    pub rights: Rights<'r>,
}

/// Rights of a request on reserved nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights<'r> {
    /// User of the request.
    pub user: &'r Name,
    /// Class of the request.
    pub class: &'r Name,
    /// Advance reservation that the request names.
    pub reservation: Option<&'r Name>,
}

impl<'r> Rights<'r> {
    /// The rights of the job at `job`.
    pub(super) fn of(draft: &Draft<'r>, job: JobIx) -> Rights<'r> {
        let gang = draft.job(job);
        Rights {
            user: &draft.snapshot.users[gang.user],
            class: &draft.snapshot.topology.classes[gang.class].name,
            reservation: gang.shape.as_deref().and_then(|shape| shape.reservation.as_ref()),
        }
    }
}

/// Moments at which a request may start, as far as windows, hours and its owner say.
#[derive(Clone, Debug)]
pub(super) struct StartTimes<'r> {
    windows: &'r WindowLists,
    rights: Rights<'r>,
    /// Spans in which its class is open; `None` if it is always open.
    hours: Option<&'r [(Millis, Millis)]>,
    /// Earliest start that the owner names, or now.
    not_before: Millis,
    /// Start of work that gets its nodes now: now, or the opening of its reservation.
    soonest: Millis,
    /// Length of its stay; [`NEVER`] if it is not known.
    length: Millis,
    /// Moments at which a window opens or closes, or the class opens.
    edges: Vec<Millis>,
}

impl<'r> StartTimes<'r> {
    /// The moments from `now` on for the job at `job`.
    pub(super) fn new(
        draft: &Draft<'r>,
        windows: &'r WindowLists,
        job: JobIx,
        now: Millis,
    ) -> StartTimes<'r> {
        let request = draft.job(job);
        let hours = draft.snapshot.hours.get(&request.class).map(Vec::as_slice);
        let not_before = request.shape.as_deref().and_then(|shape| shape.not_before);
        let opens = hours.into_iter().flatten().map(|(open, _)| *open);
        let mut edges = windows.edges(now);
        edges.extend(opens.filter(|open| now < *open));
        edges.sort_unstable();
        edges.dedup();
        StartTimes {
            windows,
            rights: Rights::of(draft, job),
            hours,
            not_before: not_before.map_or(now, |moment| moment.max(now)),
            soonest: draft.soonest(job, now),
            length: length_of(draft, job).unwrap_or(NEVER),
            edges,
        }
    }

    /// Moments at which a window opens or closes, or the class opens.
    pub(super) fn edges(&self) -> &[Millis] {
        &self.edges
    }

    /// Earliest start that the owner names, or now.
    pub(super) fn not_before(&self) -> Millis {
        self.not_before
    }

    /// Length of the stay; [`NEVER`] if it is not known.
    pub(super) fn length(&self) -> Millis {
        self.length
    }

    /// End of a stay that starts at `from`.
    pub(super) fn end(&self, from: Millis) -> Millis {
        from.saturating_add(self.length)
    }

    /// True if the request may get nodes with the windows of `list` now.
    pub(super) fn allow_now(&self, list: usize) -> bool {
        self.allow(list, self.soonest)
    }

    /// End of a stay on nodes that the request gets now.
    pub(super) fn end_now(&self) -> Millis {
        self.end(self.soonest)
    }

    /// True if the request may start at `from` on nodes with the windows of `list`.
    pub(super) fn allow(&self, list: usize, from: Millis) -> bool {
        let stay = Stay { from, to: self.end(from), rights: self.rights };
        let is_open = self.hours.is_none_or(|hours| {
            hours.iter().any(|(open, close)| *open <= from && stay.to <= *close)
        });
        is_open && self.not_before <= from && self.windows.allow(list, stay)
    }

    /// The first moment from `from` on at which the request may start on nodes with the windows of
    /// `list`.
    pub(super) fn next(&self, list: usize, from: Millis) -> Option<Millis> {
        let from = from.max(self.not_before);
        let first = self.edges.partition_point(|edge| *edge <= from);
        let mut starts = [from].into_iter().chain(self.edges[first..].iter().copied());
        starts.find(|start| self.allow(list, *start))
    }
}

impl WindowLists {
    /// The windows of all nodes of `snapshot`.
    pub(super) fn new(snapshot: &Snapshot) -> WindowLists {
        if snapshot.windows.is_empty() {
            return WindowLists::default();
        }
        // By start, then by name.
        let mut windows: Vec<_> = snapshot.windows.iter().collect();
        windows.sort_by_key(|it| (it.window.from, it.window.name.clone()));
        let mut of_node: Vec<Vec<usize>> = vec![Vec::new(); snapshot.nodes.len()];
        for (place, window) in windows.iter().enumerate() {
            for node in &window.nodes {
                of_node[node.0].push(place);
            }
        }
        let mut places: BTreeMap<(bool, Vec<usize>), usize> =
            of_node.iter().map(|list| ((list.is_empty(), list.clone()), 0)).collect();
        for (next, place) in places.values_mut().enumerate() {
            *place = next;
        }
        let lists = places.keys().map(|(_, list)| {
            list.iter().map(|&window| Arc::clone(&windows[window].window)).collect()
        });
        WindowLists {
            lists: lists.collect(),
            of: of_node.into_iter().map(|list| places[&(list.is_empty(), list)]).collect(),
        }
    }

    /// Place of the list of windows of a node. Nodes whose windows begin sooner come first.
    pub(super) fn list_of(&self, node: usize) -> usize {
        self.of.get(node).copied().unwrap_or(0)
    }

    /// True if a request may be on nodes with the windows of `list` for all of its stay.
    pub(super) fn allow(&self, list: usize, stay: Stay<'_>) -> bool {
        let Some(windows) = self.lists.get(list) else { return stay.rights.reservation.is_none() };
        let Some(reservation) = stay.rights.reservation else {
            return !windows.iter().any(|window| window.overlaps(stay.from, stay.to));
        };
        let own = windows.iter().find(|window| window.name == *reservation);
        own.is_some_and(|own| {
            let is_within = own.from <= stay.from && stay.to <= own.to;
            is_within && own.admits(stay.rights.user, stay.rights.class)
        })
    }

    /// Moments after `now` at which windows open or close.
    pub(super) fn edges(&self, now: Millis) -> Vec<Millis> {
        let windows = self.lists.iter().flatten();
        let edges = windows.flat_map(|window| [window.from, window.to]);
        let mut edges: Vec<Millis> = edges.filter(|edge| now < *edge && *edge < NEVER).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// The first window that opens from `now` until before `to`.
    pub(super) fn next(&self, now: Millis, to: Millis) -> Option<&Arc<Window>> {
        let windows = self.lists.iter().flatten();
        let ahead = windows.filter(|window| window.overlaps(now, to));
        ahead.min_by_key(|window| (window.from, &window.name))
    }
}
