//! How the options become a handle: the same for every handle, async and blocking.

/// Writes `builder` and `connect` of a handle and of its blocking twin.
///
/// The module that calls it has `build`, which makes the async handle from the options.
macro_rules! connects {
    (
        $handle:ident, $subject:ty,
        $(#[$connect:meta])+
        $(errors: #[$errors:meta])+
    ) => {
        impl super::Buildable for $handle {
            type Subject = $subject;
        }

        impl super::Buildable for blocking::$handle {
            type Subject = $subject;
        }

        impl Builder<$handle> {
            $(#[$connect])+
            ///
            /// # Errors
            $(#[$errors])+
            pub fn connect<B>(self, backend: B) -> Result<$handle, Error>
            where
                B: Transport + Runtime + 'static,
            {
                let backend = Arc::new(backend);
                self.connect_parts(backend.clone(), backend)
            }

            /// Like [`Self::connect`], with a separate transport and runtime.
            ///
            /// # Errors
            $(#[$errors])+
            pub fn connect_parts(
                self,
                transport: Arc<dyn Transport>,
                runtime: Arc<dyn Runtime>,
            ) -> Result<$handle, Error> {
                build(self.told?, transport, runtime)
            }

            /// Like [`Self::connect`], for blocking handles. It is for code that makes options for
            /// both kinds. The `builder` of the blocking handle makes only blocking handles.
            ///
            /// # Errors
            $(#[$errors])+
            pub fn connect_blocking<B>(self, backend: B) -> Result<blocking::$handle, Error>
            where
                B: Transport + BlockOn + 'static,
            {
                let backend = Arc::new(backend);
                let handle = self.connect_parts(backend.clone(), backend.clone())?;
                Ok(blocking::$handle::new(handle, backend))
            }
        }

        impl Builder<blocking::$handle> {
            $(#[$connect])+
            ///
            /// # Errors
            $(#[$errors])+
            pub fn connect<B>(self, backend: B) -> Result<blocking::$handle, Error>
            where
                B: Transport + BlockOn + 'static,
            {
                let builder = Builder::<$handle> { told: self.told };
                builder.connect_blocking(backend)
            }
        }
    };
}
