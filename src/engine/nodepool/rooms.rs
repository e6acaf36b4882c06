//! The real cluster that What Of and preemption work on: what is on each machine, and what of the
//! rest may be given away.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::snapshot::Snapshot;
use crate::model::{MachineIx, Order, PoolIx, QShares, ShareState};

/// A held share, by its place in the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) struct Holding {
    /// The job's place in the snapshot.
    pub job: usize,
    /// The share's place among its job's shares.
    pub share: usize,
}

/// Every machine's room, indexed by how much of it is free to give.
#[derive(Debug)]
pub(in crate::engine) struct Rooms {
    by_machine: Vec<Room>,
    /// Schedulable machines per pool, by usable room.
    by_room: Vec<BTreeMap<RoomKey, BTreeSet<MachineIx>>>,
    /// Schedulable machines per pool on which something is leaving.
    emptying: Vec<BTreeSet<MachineIx>>,
}

/// How much room a machine offers, and whether it is all of it: whole machines are used last.
type RoomKey = (u64, bool);

#[derive(Debug)]
struct Room {
    pool: PoolIx,
    is_schedulable: bool,
    order: QShares,
    /// Occupied, by shares that are leaving too.
    used: QShares,
    /// Occupied by shares that are leaving.
    leaving: QShares,
    /// Earmarked for jobs that wait for it.
    promised: QShares,
    /// Shares that were on the machine when the cycle began and are not leaving.
    holdings: BTreeSet<Holding>,
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

    fn key(&self) -> RoomKey {
        (self.usable().0, self.used == QShares(0))
    }
}

impl Rooms {
    pub(in crate::engine) fn new(snapshot: &Snapshot) -> Rooms {
        let rooms = snapshot.machines.iter().map(|machine| Room {
            pool: machine.pool,
            is_schedulable: machine.state.is_schedulable(),
            order: machine.order,
            used: machine.limbo,
            leaving: QShares(0),
            promised: QShares(0),
            holdings: BTreeSet::new(),
        });
        let mut rooms: Vec<Room> = rooms.collect();
        for (job_ix, job) in snapshot.jobs.iter().enumerate() {
            for (share_ix, share) in job.shares.iter().enumerate() {
                let room = &mut rooms[share.machine.0];
                room.used += share.order.qshares();
                match share.state {
                    ShareState::Leaving => room.leaving += share.order.qshares(),
                    ShareState::Held => {
                        room.holdings.insert(Holding { job: job_ix, share: share_ix });
                    }
                }
            }
        }
        let mut by_room =
            vec![BTreeMap::<RoomKey, BTreeSet<MachineIx>>::new(); snapshot.topology.pools.len()];
        for (ix, room) in rooms.iter().enumerate().filter(|(_, room)| room.is_schedulable) {
            by_room[room.pool.0].entry(room.key()).or_default().insert(MachineIx(ix));
        }
        let mut emptying = vec![BTreeSet::new(); snapshot.topology.pools.len()];
        for (ix, room) in rooms.iter().enumerate() {
            if room.is_schedulable && QShares(0) < room.leaving {
                emptying[room.pool.0].insert(MachineIx(ix));
            }
        }
        Rooms { by_machine: rooms, by_room, emptying }
    }

    /// Changes one machine and keeps the index true.
    fn change(&mut self, machine: MachineIx, change: impl FnOnce(&mut Room)) {
        let room = &mut self.by_machine[machine.0];
        let before = room.key();
        change(room);
        let after = room.key();
        if before == after || !room.is_schedulable {
            return;
        }
        let index = &mut self.by_room[room.pool.0];
        let machines = index.get_mut(&before).expect("every schedulable machine is indexed");
        machines.remove(&machine);
        if machines.is_empty() {
            index.remove(&before);
        }
        index.entry(after).or_default().insert(machine);
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
        self.change(machine, |room| {
            assert!(room.holdings.remove(&holding), "a share leaves once");
            room.leaving += amount;
        });
        let room = &self.by_machine[machine.0];
        if room.is_schedulable {
            self.emptying[room.pool.0].insert(machine);
        }
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

    /// Whether nothing is on it and nothing of it is promised.
    pub(in crate::engine) fn is_empty(&self, machine: MachineIx) -> bool {
        let room = &self.by_machine[machine.0];
        room.used == QShares(0) && room.promised == QShares(0)
    }

    /// Shares on it that were there when the cycle began and are not leaving.
    pub(in crate::engine) fn holdings(&self, machine: MachineIx) -> impl Iterator<Item = Holding> {
        self.by_machine[machine.0].holdings.iter().copied()
    }

    /// The schedulable machines of `pool`, with what may be given away on each, from the least
    /// room of at least `order` upwards; among equals machines in use first, then by name.
    pub(in crate::engine) fn with_room(
        &self,
        pool: PoolIx,
        order: Order,
    ) -> impl Iterator<Item = (RoomKey, &BTreeSet<MachineIx>)> {
        let least = (order.qshares().0, false);
        self.by_room[pool.0].range(least..).map(|(&key, machines)| (key, machines))
    }

    /// The schedulable machines of `pool` on which something is leaving.
    pub(in crate::engine) fn emptying(&self, pool: PoolIx) -> impl Iterator<Item = MachineIx> {
        self.emptying[pool.0].iter().copied()
    }

    /// All schedulable machines of `pool`.
    pub(in crate::engine) fn schedulable(&self, pool: PoolIx) -> impl Iterator<Item = MachineIx> {
        self.by_room[pool.0].values().flatten().copied()
    }
}
