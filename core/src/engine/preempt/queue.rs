//! Search for the cheapest node of a request: a lazy queue for each kind of request.
//!
//! A kind is a class, an order and some rights. Its queue holds nodes by a lower bound of the cost
//! there: first a rough bound, then a close bound. A node is costed anew for the request unless a
//! known plan is cheaper. Then the processes there that may go give the next bound; a node without
//! enough of them is dropped.
//!
//! That is exact because costs only rise within a cycle: a side only loses (`keeps.rs`), and nodes
//! with more free space are entered again. Requests of a kind come nearly least served first. For a
//! request that is worse off than requests before it, their entries are undone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::eligibility::Eligibility;
use super::feasible::Feasible;
use super::offers::{Offer, Offers};
use super::plan::{CostBound, Plans};
use crate::engine::draft::Draft;
use crate::engine::fairness_tree::GroupIx;
use crate::engine::share_table::{large, small};
use crate::model::{ClassIx, IxVec, NodeIx, QShares};

/// Holdings of the class and user of a request. A result holds for all requests of its kind that
/// are no worse off.
pub(super) type RequestStanding = (u64, u64);

/// An offer, and its place in the list of a user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NextOffer {
    offer: Offer,
    user: u32,
    with_last: bool,
    place: u32,
}

impl NextOffer {
    /// The first offer of a list.
    fn first(offer: Offer, (user, with_last): (GroupIx, bool)) -> NextOffer {
        NextOffer { offer, user: small(user.0), with_last, place: 0 }
    }

    /// The list of the offer.
    fn list(self) -> (GroupIx, bool) {
        (GroupIx(large(self.user)), self.with_last)
    }
}

/// Precision of a lower bound of the cost on a node. Most nodes never need a close bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Precision {
    /// The cost of a single process.
    Rough,
    /// The cost of as many processes as the request needs.
    Close,
}

/// Nodes where a kind of request might find space.
pub(super) struct Queue {
    /// Of the request that asks.
    standing: RequestStanding,
    /// Next offer of each user that might lose a process, and of a further user in each class. The
    /// search enters the users of a class by their first offer, and most of them never.
    offers: BinaryHeap<Reverse<NextOffer>>,
    /// For each class with such users: true if last processes count, and how many users were entered.
    entered: IxVec<ClassIx, Option<(bool, usize)>>,
    /// The dearest offer seen.
    dearest: Option<Offer>,
    nodes: IxVec<NodeIx, NodeEntry>,
    /// Nodes by a lower bound of the cost. An entry counts if it has the last number of its node; of
    /// several, the least.
    heap: BinaryHeap<Reverse<(CostBound, Precision, u32)>>,
    /// Next bounds of nodes that were costed for the request.
    costed: Vec<CostBound>,
    /// What requests changed, in order of time, and what it was before. Both parts of the standing
    /// only rise along the list.
    undo: Vec<(RequestStanding, Before)>,
    /// Number of entries of `grown` that the queue has read.
    seen: usize,
}

/// State of a node in a queue.
#[derive(Clone, Copy, Default)]
struct NodeEntry {
    /// Quanta that users offer there.
    offered: u32,
    /// Number of the last entry that took the place of entries before.
    entry: u32,
    /// How often its space grew.
    grown: u32,
}

/// State before a request changed it.
#[derive(Clone, Copy)]
enum Before {
    /// The bound of a node, and how often its space had grown.
    Node(CostBound, u32),
    /// A user whose offers came to an end, as the request may take nothing from the user.
    User(NextOffer),
    /// A class whose users were not entered, for the same reason.
    Class(ClassIx),
}

/// True if the class or user of a request is worse off than that of `other`.
pub(super) fn is_less(standing: RequestStanding, other: RequestStanding) -> bool {
    standing.0 < other.0 || standing.1 < other.1
}

impl Queue {
    /// Builds the queue for all requests with equal rights. `standing` is that of the first.
    pub(super) fn new(
        draft: &Draft<'_>,
        (offers, eligibility): (&Offers, &Eligibility<'_, '_>),
        standing: RequestStanding,
        seen: usize,
    ) -> Queue {
        let classes = draft.snapshot.topology.classes.len();
        let mut queue = Queue {
            standing,
            offers: BinaryHeap::new(),
            entered: IxVec::filled(None, classes),
            dearest: None,
            nodes: IxVec::filled(NodeEntry::default(), draft.snapshot.nodes.len()),
            heap: BinaryHeap::new(),
            costed: Vec::new(),
            undo: Vec::new(),
            seen,
        };
        for class in (0..classes).map(ClassIx) {
            let with_last =
                offers.usual_job(class).map(|job| eligibility.reaches_last_processes(job));
            queue.entered[class] = with_last.map(|with_last| (with_last, 0));
            queue.enter_next(draft, (offers, eligibility), class);
        }
        queue
    }

    /// Enters a node, in place of its last entry.
    fn enter(&mut self, bound: CostBound, precision: Precision) {
        let node = &mut self.nodes[bound.node()];
        node.entry += 1;
        self.heap.push(Reverse((bound, precision, node.entry)));
    }

    /// Prepares the queue for a request: undoes what requests with more changed, and enters nodes
    /// whose space grew since the last request.
    pub(super) fn serve(
        &mut self,
        draft: &Draft<'_>,
        (offers, feasible, eligibility): (&Offers, &Feasible<'_, '_>, &Eligibility<'_, '_>),
        standing: RequestStanding,
        (grown, claimed): (&[(NodeIx, QShares)], &IxVec<NodeIx, QShares>),
    ) {
        self.standing = standing;
        let kept = self.undo.partition_point(|(known, _)| !is_less(standing, *known));
        // The oldest state of a node comes last, and counts.
        for (_, before) in self.undo.split_off(kept).into_iter().rev() {
            match before {
                Before::Node(bound, grown) if self.nodes[bound.node()].grown == grown => {
                    self.enter(bound, Precision::Close);
                }
                Before::Node(bound, _) => {
                    self.enter_anew(draft, (offers, feasible, eligibility), bound.node());
                }
                Before::User(next) => self.offers.push(Reverse(next)),
                Before::Class(class) => self.enter_next(draft, (offers, eligibility), class),
            }
        }
        for &(node, before) in &grown[self.seen..] {
            // Most space that becomes free was promised at once.
            if claimed[node] < before {
                self.nodes[node].grown += 1;
                self.enter_anew(draft, (offers, feasible, eligibility), node);
            }
        }
        self.seen = grown.len();
    }

    /// Enters the nodes again that were costed for the request.
    pub(super) fn conclude(&mut self) {
        // Of several bounds of a node the first is the least, and counts.
        for bound in std::mem::take(&mut self.costed).into_iter().rev() {
            self.enter(bound, Precision::Close);
        }
    }

    /// Enters a node by a bound that holds for all requests.
    fn enter_anew(
        &mut self,
        draft: &Draft<'_>,
        (offers, feasible, eligibility): (&Offers, &Feasible<'_, '_>, &Eligibility<'_, '_>),
        node: NodeIx,
    ) {
        let Some(order) = feasible.order_on(node) else { return };
        let missing = draft.spaces.missing_for(node, order.qshares());
        if let Some(bound) = offers.least(draft, eligibility.keeps, node, missing) {
            self.enter(CostBound::new(&bound.within(eligibility.limit)), Precision::Close);
        }
    }

    /// Enters the next user of `class` that might lose a process.
    fn enter_next(
        &mut self,
        draft: &Draft<'_>,
        (offers, eligibility): (&Offers, &Eligibility<'_, '_>),
        class: ClassIx,
    ) {
        // The answer is the same for all users of another class.
        let own_class = draft.entities.class_of(eligibility.requester);
        let is_reached = |job| class == own_class || eligibility.reaches(job);
        let is_reached = offers.usual_job(class).is_some_and(is_reached);
        if !is_reached {
            self.undo.push((self.standing, Before::Class(class)));
            return;
        }
        let Some((with_last, count)) = self.entered[class].as_mut() else { return };
        let users = offers.users(draft, eligibility.keeps, (class, *with_last));
        for &user in &users[*count..] {
            draft.effort.search();
            *count += 1;
            let of_user = (user, *with_last);
            let first = offers.of(draft, eligibility.keeps, of_user).first();
            let Some(first) = first else { continue };
            if eligibility.reaches_user(user) {
                self.offers.push(Reverse(NextOffer::first(*first, of_user)));
                return;
            }
            self.undo.push((self.standing, Before::User(NextOffer::first(*first, of_user))));
        }
    }

    /// Finds the wanted plan.
    pub(super) fn search(
        &mut self,
        draft: &Draft<'_>,
        offers: &Offers,
        (feasible, eligibility): (&Feasible<'_, '_>, &mut Eligibility<'_, '_>),
        plans: &mut Plans,
    ) {
        loop {
            self.offer(draft, offers, (feasible, eligibility));
            let Some(&Reverse((bound, precision, entry))) = self.heap.peek() else { break };
            if plans.are_complete(&bound.cost()) {
                break;
            }
            self.heap.pop();
            let node = bound.node();
            if self.nodes[node].entry != entry {
                continue;
            }
            if precision == Precision::Rough {
                if let Some(close) = close_bound(draft, offers, (feasible, eligibility), bound) {
                    self.enter(close, Precision::Close);
                }
                continue;
            }
            // Dearer entries of the node count no more.
            self.nodes[node].entry += 1;
            let next = plans.consider(draft, feasible, eligibility, node);
            let next = next.as_ref().map(CostBound::new);
            // Shares of a side that is barred for this request alone may go for the next. Space to
            // come, closed to a job that lost a share, may be gone by then. Shares of the request's
            // own user go to no request that is no worse off, except to requests of the same user,
            // which look at them apart.
            let is_free = || draft.spaces.missing_for(node, QShares(1)) == QShares(0);
            if eligibility.has_met_bar() || (eligibility.has_given() && is_free()) {
                self.costed.push(bound);
                continue;
            }
            if next != Some(bound) {
                self.undo.push((self.standing, Before::Node(bound, self.nodes[node].grown)));
            }
            self.costed.extend(next);
        }
    }

    /// Enters all nodes that might be cheaper than the first.
    ///
    /// A node is entered by the offer that completes the missing space. Each plan for it needs a
    /// process of that offer, or of an offer that is no cheaper.
    fn offer(
        &mut self,
        draft: &Draft<'_>,
        offers: &Offers,
        (feasible, eligibility): (&Feasible<'_, '_>, &Eligibility<'_, '_>),
    ) {
        loop {
            let Some(mut next) = self.offers.peek_mut() else { return };
            let Reverse(of_list) = *next;
            let NextOffer { offer, place, .. } = of_list;
            let (cost, of_user) = (offer.cost(), of_list.list());
            let bound = CostBound::new(&cost);
            if self.heap.peek().is_some_and(|Reverse((first, ..))| *first < bound) {
                return;
            }
            draft.effort.search();
            let is_reached = eligibility.reaches_user(of_user.0);
            let following = offers.of(draft, eligibility.keeps, of_user).get(large(place) + 1);
            match following.filter(|_| is_reached) {
                Some(following) => {
                    *next = Reverse(NextOffer { offer: *following, place: place + 1, ..of_list });
                    drop(next);
                }
                None => drop(PeekMut::pop(next)),
            }
            if place == 0 {
                let (class, _) = draft.entities.groups()[of_user.0];
                self.enter_next(draft, (offers, eligibility), class);
            }
            if !is_reached {
                self.undo.push((self.standing, Before::User(of_list)));
                continue;
            }
            let node = offer.node();
            let Some(order) = feasible.order_on(node) else { continue };
            let missing = draft.spaces.missing_for(node, order.qshares()).0.max(1);
            let before = self.nodes[node].offered;
            let offered = before.saturating_add(offer.quanta());
            self.nodes[node].offered = offered;
            // An offer that was undone comes late, and may be cheaper than an entry of its node.
            let is_late = Some(offer) < self.dearest;
            self.dearest = self.dearest.max(Some(offer));
            if missing <= u64::from(offered) && (u64::from(before) < missing || is_late) {
                let bound = CostBound::new(&cost.within(eligibility.limit));
                self.heap.push(Reverse((bound, Precision::Rough, self.nodes[node].entry)));
            }
        }
    }
}

/// Returns the close bound of a node with a rough bound, if the node might do.
fn close_bound(
    draft: &Draft<'_>,
    offers: &Offers,
    (feasible, eligibility): (&Feasible<'_, '_>, &Eligibility<'_, '_>),
    rough: CostBound,
) -> Option<CostBound> {
    let order = feasible.order_on(rough.node())?;
    let missing = draft.spaces.missing_for(rough.node(), order.qshares()).max(QShares(1));
    let bound = offers.bound(draft, eligibility.keeps, rough.cost(), missing)?;
    Some(CostBound::new(&bound.within(eligibility.limit)))
}
