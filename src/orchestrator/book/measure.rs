//! Mean time of a task, as published to the resource manager.

/// Mean time that was last published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    told: u64,
}

impl Measure {
    /// Returns the mean to publish, in milliseconds; 0 while it is not known.
    ///
    /// A campaign has ended `ended` tasks that took `ended_ms` together. `running` are the times of
    /// running tasks so far: a task counts once it takes longer than the mean. The published mean
    /// stays until it is off by a tenth, because each change keeps the cluster from becoming quiet.
    pub fn tell(&mut self, ended: u64, ended_ms: u64, running: impl Iterator<Item = u64>) -> u64 {
        let mean = ended_ms.checked_div(ended).unwrap_or(0);
        let (count, time) = running
            .filter(|time| 0 < ended && mean < *time)
            .fold((0, 0), |(count, sum): (u64, u64), time| (count + 1, sum.saturating_add(time)));
        let total = time.saturating_add(ended_ms);
        let mean = total.checked_div(count + ended).unwrap_or(0);
        // A mean of 0 ms would read as not known.
        let mean = if 0 < ended { mean.max(1) } else { 0 };
        let is_off = self.told < mean.abs_diff(self.told).saturating_mul(10);
        if is_off {
            self.told = mean;
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tasks_in_progress_raise_the_mean() {
        let mut measure = Measure::default();
        assert_eq!(measure.tell(0, 0, [500].into_iter()), 0);
        assert_eq!(measure.tell(4, 400, [50].into_iter()), 100);
        assert_eq!(measure.tell(4, 400, [50, 1000].into_iter()), 280);
    }

    #[test]
    fn a_mean_is_told_anew_when_it_is_off_by_a_tenth() {
        let mut measure = Measure::default();
        assert_eq!(measure.tell(10, 1000, [].into_iter()), 100);
        assert_eq!(measure.tell(11, 1200, [].into_iter()), 100);
        assert_eq!(measure.tell(12, 1400, [].into_iter()), 116);
        assert_eq!(Measure::default().tell(3, 0, [].into_iter()), 1);
    }
}
