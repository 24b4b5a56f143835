-- What the closer tells the intake: the public halves of the keys it opens reports with.
CREATE TABLE opening_key (
    id          BIGINT PRIMARY KEY,
    kem         BIGINT NOT NULL,
    kdf         BIGINT NOT NULL,
    aead        BIGINT NOT NULL,
    public_key  BYTEA NOT NULL
);

-- Devices that may send no more; a process that knows credentials by heart looks here.
CREATE TABLE revoked_device (
    id  BIGINT PRIMARY KEY
);
