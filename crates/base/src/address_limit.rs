//! Limits how much of a shared resource one source address may hold.
//!
//! An IPv6 client usually owns a whole /64 network, so addresses of one /64 count together.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::places::Places;
use crate::sync::lock;

/// The bits of an IPv6 address that name the network.
const NETWORK_BITS: u32 = 64;

/// Places by source address. An address that holds many gets no more before others get some.
///
/// `T` is a value that all places of one address share, such as a budget of bytes. An address
/// without places takes no memory.
pub struct AddressLimit<T> {
    places: Places,
    held: Mutex<Held<T>>,
}

/// Places that are held.
struct Held<T> {
    by_address: HashMap<IpAddr, Source<T>>,
    total: usize,
}

/// The places of one address.
struct Source<T> {
    places: usize,
    shared: T,
}

impl<T: Clone> AddressLimit<T> {
    /// Creates a limit of `places_max` places for each address, of any number in all.
    #[must_use]
    pub fn new(places_max: usize) -> Arc<Self> {
        Self::of(Places { total: usize::MAX, per_client_max: places_max })
    }

    /// Creates a limit of places that all addresses share.
    #[must_use]
    pub fn of(places: Places) -> Arc<Self> {
        let held = Held { by_address: HashMap::new(), total: 0 };
        Arc::new(Self { places, held: Mutex::new(held) })
    }

    /// Takes a place until the guard is dropped, or returns `None` if the address has no more.
    ///
    /// `shared` creates the shared value of the address; it is called for the first place only.
    pub fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        shared: impl FnOnce() -> T,
    ) -> Option<AddressPlace<T>> {
        let address = network(address);
        let mut held = self.lock();
        let own = held.by_address.get(&address).map_or(0, |source| source.places);
        if !self.places.admits(held.total, own) {
            return None;
        }
        held.total += 1;
        let source = held.by_address.entry(address);
        let source = source.or_insert_with(|| Source { places: 0, shared: shared() });
        source.places += 1;
        let shared = source.shared.clone();
        Some(AddressPlace { limit: Arc::clone(self), address, shared })
    }

    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        lock(&self.held)
    }
}

impl<T> fmt::Debug for AddressLimit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressLimit").field("places", &self.places).finish_non_exhaustive()
    }
}

/// A place of an address; dropping it gives the place back.
pub struct AddressPlace<T: Clone> {
    limit: Arc<AddressLimit<T>>,
    address: IpAddr,
    shared: T,
}

impl<T: Clone> AddressPlace<T> {
    /// Returns the shared value of this address.
    #[must_use]
    pub const fn shared(&self) -> &T {
        &self.shared
    }
}

impl<T: Clone> fmt::Debug for AddressPlace<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressPlace").field("address", &self.address).finish_non_exhaustive()
    }
}

impl<T: Clone> Drop for AddressPlace<T> {
    fn drop(&mut self) {
        let mut held = self.limit.lock();
        held.total -= 1;
        if let Some(source) = held.by_address.get_mut(&self.address) {
            source.places -= 1;
            if source.places == 0 {
                held.by_address.remove(&self.address);
            }
        }
    }
}

/// Returns the counted address: the address itself, or the /64 network of an IPv6 address.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - NETWORK_BITS);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_address_has_its_own_places() {
        let limit = AddressLimit::new(2);
        let enter = |text| limit.enter(address(text), || ());
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").is_none());
        assert!(enter("::ffff:10.0.0.1").is_none(), "the same address, written as IPv6");
        let other = enter("10.0.0.2").unwrap();
        drop(first);
        let _third = enter("10.0.0.1").unwrap();
        drop(other);
        assert_eq!(limit.lock().by_address.len(), 1, "an address without places is forgotten");
    }

    #[test]
    fn ipv6_network_counts_as_one_address() {
        let limit = AddressLimit::new(1);
        let _place = limit.enter(address("2001:db8::1"), || ()).unwrap();
        assert!(limit.enter(address("2001:db8::ffff:2"), || ()).is_none());
        assert!(limit.enter(address("2001:db8:0:1::1"), || ()).is_some());
    }

    #[test]
    fn places_of_an_address_share_a_value() {
        let limit = AddressLimit::new(2);
        let enter = |text| limit.enter(address(text), || Arc::new(0)).unwrap();
        let (first, second, other) = (enter("10.0.0.1"), enter("10.0.0.1"), enter("10.0.0.2"));
        assert!(Arc::ptr_eq(first.shared(), second.shared()));
        assert!(!Arc::ptr_eq(first.shared(), other.shared()));
    }

    #[test]
    fn limit_of_zero_lets_none_in() {
        let limit = AddressLimit::new(0);
        assert!(limit.enter(address("10.0.0.1"), || ()).is_none());
        assert!(limit.lock().by_address.is_empty());
    }
}
