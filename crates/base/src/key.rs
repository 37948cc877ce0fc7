//! Order-preserving bytes of clustering keys.
