//! Facts about a backup that other objects hold: its location, and its membership in a schedule.

use crate::world::{Meta, World};
use lifeboat_api::{Backup, BackupStorageLocation};
use lifeboat_lifecycle::phase::location::{NoLocation, found, is_readable, location_name};
use lifeboat_lifecycle::phase::member::ScheduleMember;
use lifeboat_lifecycle::phase::request::Requests;
use lifeboat_lifecycle::phase::taken_over::is_of_another_cluster;

/// The location of a backup; `default` is that of the server's flag.
pub(crate) fn location_in<'w>(
    world: &'w World,
    backup: &Backup,
    default: Option<&str>,
) -> Result<&'w BackupStorageLocation, NoLocation> {
    let name = location_name(backup, world.locations.beside(backup), default);
    found(name, |name| world.locations.get(&backup.beside(name)))
}

/// A backup of a schedule, with what its world says of it; `requests` are those for it.
pub(crate) fn member_in<'b>(
    world: &World,
    backup: &'b Backup,
    requests: Requests,
    default: Option<&str>,
) -> ScheduleMember<'b> {
    ScheduleMember {
        backup,
        deletion_is_asked: requests.cannot_be_withdrawn(),
        is_readable: location_in(world, backup, default).is_ok_and(is_readable),
        is_own: !is_of_another_cluster(backup, &world.cluster),
    }
}
