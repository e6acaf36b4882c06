//! The real cluster that What Of and preemption work on: what is on each machine, and what of the
//! rest may be given away.

use std::ops::Range;

use super::machine_set::MachineSet;
use super::matrix::{Alike, Cell, Matrix};
use crate::engine::entities::Entities;
use crate::engine::shares::{Holding, Shares, large, small};
use crate::engine::snapshot::Snapshot;
use crate::model::{MachineIx, Millis, Order, PoolIx, QShares};

/// What a look at a machine needs to know of one share there.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Tenant {
    /// Its job's user within the class, as [`Entities`] has it.
    user: u32,
    /// Its size; 0 once it leaves.
    order: u32,
    /// The work that is lost with it.
    loss: Millis,
}

impl Tenant {
    /// Its job's user within the class.
    pub(in crate::engine) fn user(self) -> usize {
        large(self.user)
    }

    /// Its size; 0 once it leaves.
    pub(in crate::engine) fn order(self) -> QShares {
        QShares(u64::from(self.order))
    }

    /// The work that is lost with it.
    pub(in crate::engine) fn loss(self) -> Millis {
        self.loss
    }
}

/// A [`Holding`], as small as that of so many may be.
#[derive(Clone, Copy, Debug)]
struct Place {
    job: u32,
    share: u32,
}

impl Place {
    fn holding(self) -> Holding {
        Holding { job: large(self.job), share: large(self.share) }
    }
}

/// Every machine's room, and the capacity matrix that finds machines by it.
#[derive(Debug)]
pub(in crate::engine) struct Rooms {
    by_machine: Vec<Room>,
    /// Shares that were there when the cycle began, machine by machine.
    held_shares: Vec<Place>,
    /// Whose each of those is, and its size: whoever looks at a machine is not to fetch that from the
    /// job.
    tenants: Vec<Tenant>,
    by_pool: Vec<PoolRooms>,
}

/// The schedulable machines of one pool, by what is free of them: at three points in time.
#[derive(Debug, Default)]
struct PoolRooms {
    /// What may be given away now.
    now: Matrix<MachineSet>,
    /// What will be free, of those on which something is leaving, if anything comes of that.
    to_come: Matrix<MachineSet>,
    /// What would be free if all had gone that can be preempted, as it was when the cycle began.
    ideal: Matrix<u64>,
}

#[derive(Debug)]
struct Room {
    pool: PoolIx,
    is_schedulable: bool,
    order: QShares,
    /// Occupied, by shares that are leaving too.
    used: QShares,
    /// Occupied by shares that are leaving.
    leaving: QShares,
    /// Occupied by what cannot be preempted, whoever asks, when the cycle began.
    immovable: QShares,
    /// Earmarked for jobs that wait for it.
    promised: QShares,
    /// Where its shares are in [`Rooms::held_shares`].
    holdings: Range<usize>,
}

impl Room {
    fn free(&self) -> QShares {
        self.order.saturating_sub(self.used)
    }

    /// What will be free when everything that is leaving has left, less what is promised.
    fn coming(&self) -> QShares {
        self.order.saturating_sub(self.used - self.leaving).saturating_sub(self.promised)
    }

    /// What may be given away now: free, and not needed to keep a promise.
    fn usable(&self) -> QShares {
        self.free().min(self.coming())
    }

    /// The cell it is in when so much of it is free.
    fn cell(&self, free: QShares) -> Cell {
        Cell { order: self.order.0, free: free.0 }
    }

    fn cell_now(&self) -> Cell {
        self.cell(self.usable())
    }

    /// What comes of the shares that are leaving; `None` if nothing does.
    fn cell_to_come(&self) -> Option<Cell> {
        let coming = self.coming();
        (QShares(0) < self.leaving && QShares(0) < coming).then(|| self.cell(coming))
    }

    fn ideal_cell(&self) -> Cell {
        self.cell(self.order.saturating_sub(self.immovable))
    }
}

impl PoolRooms {
    fn enter(&mut self, machine: MachineIx, room: &Room) {
        self.now.insert(machine, room.cell_now());
        self.to_come.move_machine(machine, None, room.cell_to_come());
        self.ideal.put(room.ideal_cell(), 1);
    }
}

impl Rooms {
    /// The machines of `snapshot` with all `shares` on them; of each it is noted whether it is in the pool
    /// of its job's class.
    pub(in crate::engine) fn new(
        snapshot: &Snapshot,
        entities: &Entities,
        shares: &mut Shares,
    ) -> Rooms {
        let mut rooms: Vec<Room> = snapshot
            .machines
            .iter()
            .map(|machine| Room {
                pool: machine.pool,
                is_schedulable: machine.state.is_schedulable(),
                order: machine.order,
                used: machine.limbo,
                leaving: QShares(0),
                immovable: machine.limbo,
                promised: QShares(0),
                holdings: 0..0,
            })
            .collect();
        let (held_shares, tenants) = take_in_shares(snapshot, entities, shares, &mut rooms);
        let mut by_pool: Vec<PoolRooms> = Vec::new();
        by_pool.resize_with(snapshot.topology.pools.len(), PoolRooms::default);
        for (ix, room) in rooms.iter().enumerate().filter(|(_, room)| room.is_schedulable) {
            by_pool[room.pool.0].enter(MachineIx(ix), room);
        }
        Rooms { by_machine: rooms, held_shares, tenants, by_pool }
    }

    /// Changes one machine, and moves it to where it then belongs.
    fn change(&mut self, machine: MachineIx, change: impl FnOnce(&mut Room)) {
        let room = &mut self.by_machine[machine.0];
        let before = (room.cell_now(), room.cell_to_come());
        change(room);
        if room.is_schedulable {
            let pool = &mut self.by_pool[room.pool.0];
            pool.now.move_machine(machine, Some(before.0), Some(room.cell_now()));
            pool.to_come.move_machine(machine, before.1, room.cell_to_come());
        }
    }

    /// Puts a new share on `machine`.
    ///
    /// # Panics
    ///
    /// If it does not fit: the caller's books are wrong.
    pub(in crate::engine) fn occupy(&mut self, machine: MachineIx, amount: QShares) {
        assert!(
            amount <= self.by_machine[machine.0].free(),
            "a share is placed where there is room for it"
        );
        self.change(machine, |room| room.used += amount);
    }

    /// Notes that a held share is now leaving.
    pub(in crate::engine) fn leave(
        &mut self,
        machine: MachineIx,
        holding: Holding,
        amount: QShares,
    ) {
        let there = self.by_machine[machine.0].holdings.clone();
        let mut there = self.held_shares[there.clone()].iter().zip(&mut self.tenants[there]);
        let place = there.find(|(kept, tenant)| kept.holding() == holding && 0 < tenant.order);
        let (_, tenant) = place.expect("a share leaves once");
        tenant.order = 0;
        self.change(machine, |room| room.leaving += amount);
    }

    /// Earmarks room on `machine`.
    pub(in crate::engine) fn promise(&mut self, machine: MachineIx, amount: QShares) {
        self.change(machine, |room| room.promised += amount);
    }

    /// Gives earmarked room back.
    pub(in crate::engine) fn withdraw_promise(&mut self, machine: MachineIx, amount: QShares) {
        self.change(machine, |room| room.promised -= amount);
    }

    /// The machine's pool.
    pub(in crate::engine) fn pool(&self, machine: MachineIx) -> PoolIx {
        self.by_machine[machine.0].pool
    }

    /// Whether new shares may be placed on it.
    pub(in crate::engine) fn is_schedulable(&self, machine: MachineIx) -> bool {
        self.by_machine[machine.0].is_schedulable
    }

    /// Its size.
    pub(in crate::engine) fn order(&self, machine: MachineIx) -> QShares {
        self.by_machine[machine.0].order
    }

    /// What may be given away now on it.
    pub(in crate::engine) fn usable(&self, machine: MachineIx) -> QShares {
        self.by_machine[machine.0].usable()
    }

    /// What would still have to leave for `needed` to fit, when everything that is leaving has left
    /// and every promise is kept. A machine that shrank below its use lacks that, too.
    pub(in crate::engine) fn lacking(&self, machine: MachineIx, needed: QShares) -> QShares {
        let room = &self.by_machine[machine.0];
        (room.used - room.leaving + room.promised + needed).saturating_sub(room.order)
    }

    /// Shares on it that were there when the cycle began and are not leaving.
    pub(in crate::engine) fn held_shares(
        &self,
        machine: MachineIx,
    ) -> impl Iterator<Item = (Holding, Tenant)> {
        let there = self.by_machine[machine.0].holdings.clone();
        let there = self.held_shares[there].iter().zip(self.tenants(machine).iter().copied());
        let there = there.filter(|(_, tenant)| 0 < tenant.order);
        there.map(|(place, tenant)| (place.holding(), tenant))
    }

    /// What is to be known of the shares that were on it when the cycle began.
    pub(in crate::engine) fn tenants(&self, machine: MachineIx) -> &[Tenant] {
        &self.tenants[self.by_machine[machine.0].holdings.clone()]
    }

    /// What `machine` would be if all had gone that can be preempted.
    pub(in crate::engine) fn ideal(&self, machine: MachineIx) -> Cell {
        self.by_machine[machine.0].ideal_cell()
    }

    /// How many schedulable machines of each pool would be what if all had gone that can be preempted.
    pub(in crate::engine) fn ideal_counts(&self) -> impl Iterator<Item = &Matrix<u64>> {
        self.by_pool.iter().map(|pool| &pool.ideal)
    }

    /// The schedulable machines of `pool` by what may be given away on them.
    pub(in crate::engine) fn matrix(&self, pool: PoolIx) -> &Matrix<MachineSet> {
        &self.by_pool[pool.0].now
    }

    /// The schedulable machines of `pool` of which at least `order` may be given away, from the
    /// least room upwards; among equals machines in use first.
    pub(in crate::engine) fn with_room(
        &self,
        pool: PoolIx,
        order: Order,
    ) -> impl Iterator<Item = Alike<'_, MachineSet>> {
        self.matrix(pool).alike_from(order.qshares().0)
    }

    /// The schedulable machines of `pool` on which something is leaving and at least `order` will
    /// be free, those that are alike in turn.
    pub(in crate::engine) fn with_room_to_come(
        &self,
        pool: PoolIx,
        order: Order,
    ) -> impl Iterator<Item = impl Iterator<Item = MachineIx>> {
        self.by_pool[pool.0].to_come.machines_from(order.qshares().0)
    }

    /// The schedulable machines of `pool`.
    pub(in crate::engine) fn schedulable(&self, pool: PoolIx) -> impl Iterator<Item = MachineIx> {
        self.matrix(pool).machines_from(0).flatten()
    }

    /// How many schedulable machines of `pool` have at least `order`.
    pub(in crate::engine) fn count_of_size(&self, pool: PoolIx, order: Order) -> u64 {
        self.matrix(pool).machines_of_size(order.qshares().0)
    }

    /// Whether anything may be given away in `pool` now, or when everything has left that is leaving.
    pub(in crate::engine) fn has_any(&self, pool: PoolIx) -> bool {
        let PoolRooms { now, to_come, .. } = &self.by_pool[pool.0];
        0 < now.largest() || 0 < to_come.largest()
    }

    /// What may be given away on all schedulable machines of `pool`, and on the one with the most.
    pub(in crate::engine) fn usable_in(&self, pool: PoolIx) -> (QShares, QShares) {
        let matrix = self.matrix(pool);
        (QShares(matrix.total()), QShares(matrix.largest()))
    }
}

/// Enters the shares of all jobs in `rooms`, and lists those that are held machine by machine, on
/// each by job and share; and whose each is.
fn take_in_shares(
    snapshot: &Snapshot,
    entities: &Entities,
    shares: &mut Shares,
    rooms: &mut [Room],
) -> (Vec<Place>, Vec<Tenant>) {
    for job in 0..snapshot.jobs.len() {
        let class = &snapshot.topology.classes[entities.class_of(job).0];
        let is_immovable = !class.policy.is_preemptable();
        for share in shares.of_job_mut(job) {
            let room = &mut rooms[share.machine().0];
            share.is_resident = room.pool == class.pool;
            room.used += share.order.qshares();
            if is_immovable {
                room.immovable += share.order.qshares();
            }
            if share.is_held {
                room.holdings.end += 1;
            } else {
                room.leaving += share.order.qshares();
            }
        }
    }
    let mut held = 0;
    for room in rooms.iter_mut() {
        let shares = room.holdings.end;
        room.holdings = held..held;
        held += shares;
    }
    let mut held_shares = vec![Place { job: 0, share: 0 }; held];
    let mut tenants = vec![Tenant { user: 0, order: 0, loss: 0 }; held];
    for job in 0..snapshot.jobs.len() {
        let user = small(entities.group_of(job));
        for (Holding { job, share }, brief) in shares.held_by(job) {
            let next = &mut rooms[brief.machine().0].holdings.end;
            held_shares[*next] = Place { job: small(job), share: small(share) };
            tenants[*next] = Tenant { user, order: brief.order.get(), loss: brief.loss };
            *next += 1;
        }
    }
    (held_shares, tenants)
}
