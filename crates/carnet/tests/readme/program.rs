use carnet::{Db, Key, abort, record};

record! {
    struct Account {
        owner: String,
        balance: i64,
    }
}

fn main() -> carnet::Result<()> {
    let db = Db::open("./ledger-data")?;
    let accounts = db.table::<Key<(i64,)>, Account>("ledger.accounts")?;
    db.transact(|tx| {
        accounts.put(tx, &Key((1,), ()), &Account { owner: "Ada".into(), balance: 100 })?;
        accounts.put(tx, &Key((2,), ()), &Account { owner: "Bob".into(), balance: 0 })
    })?;
    // Retried automatically if another transaction changes one of the accounts meanwhile.
    db.transact(|tx| {
        let missing = || abort!("no such account");
        let mut ada = accounts.get(tx, &Key((1,), ()))?.ok_or_else(missing)?;
        let mut bob = accounts.get(tx, &Key((2,), ()))?.ok_or_else(missing)?;
        ada.balance -= 30;
        bob.balance += 30;
        accounts.put(tx, &Key((1,), ()), &ada)?;
        accounts.put(tx, &Key((2,), ()), &bob)
    })?;
    // A single read through the database sees the newest committed version.
    let ada = accounts.get(&db, &Key((1,), ()))?;
    println!("Ada has {}", ada.map_or(0, |ada| ada.balance));
    // A snapshot never blocks, never conflicts and never retries.
    for row in accounts.scan(&db.snapshot()?) {
        let (key, account) = row?;
        println!("{}: {} has {}", key.0.0, account.owner, account.balance);
    }
    Ok(())
}
